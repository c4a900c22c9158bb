"""The viewer in a browser: the window's panels at ``http://127.0.0.1:9998/``.

message, doorkeeper    what a page is told, and which browser (pure)
server, visit          the port, and one connection of a browser
page.html .css .js     the page; it draws, and decides nothing but where panels stand
world.js               its maps and the run's course

Callers use ``server.WebServer`` and ``server.Show``.
"""
