#!/bin/bash
# A verifier that separates nothing runs the agent's program here, beside the reward.
answers=/logs/verifier/exercise.txt
[ -e "$answers" ] || bash /tests/exercise.sh > "$answers" 2>/dev/null
python3 -I /tests/grade.py
