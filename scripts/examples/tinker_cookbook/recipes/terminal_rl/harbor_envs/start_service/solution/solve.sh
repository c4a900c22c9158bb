#!/bin/bash
cat > /app/service.py <<'END'
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        _, kind, word = (self.path + "//").split("/")[:3]
        answer = {"upper": word.upper(), "length": str(len(word))}.get(kind)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write((answer or "").encode())

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
END
cat > /app/start.sh <<'END'
#!/bin/bash
nohup python3 /app/service.py > /dev/null 2>&1 < /dev/null &
END
chmod +x /app/start.sh
