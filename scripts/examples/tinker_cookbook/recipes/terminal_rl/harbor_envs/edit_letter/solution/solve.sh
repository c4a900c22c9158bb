#!/bin/bash
sed -i -e /^DRAFT$/d -e s/Tuseday/Tuesday/ -e '$a Yours, the night shift' /app/letter.txt
