"""Shows the window's panels in a browser at ``http://127.0.0.1:9998/``.

``page.html``, ``page.css``, ``page.js`` and ``world.js`` draw the page and only choose its layout.
"""
