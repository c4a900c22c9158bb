#!/bin/bash
cat > /app/service.ini <<'END'
; settings of the service
[server]
host = 127.0.0.1
port = 8080
workers = 4

[logging]
level = info

[storage]
folder = /app/data/blobs
limit_mb = 512
END
