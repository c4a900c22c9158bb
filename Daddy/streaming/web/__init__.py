"""The viewer in a browser: the window's panels at ``http://127.0.0.1:9998/``.

``page.html``, ``page.css``, ``page.js`` and ``world.js`` draw, and decide nothing but where panels
stand.
"""
