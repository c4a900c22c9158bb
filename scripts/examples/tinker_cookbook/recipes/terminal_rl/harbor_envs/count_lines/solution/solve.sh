#!/bin/bash
cat /app/logs/*.log | grep -cw ERROR > /app/errors.txt
