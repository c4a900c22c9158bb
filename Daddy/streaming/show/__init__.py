"""What a person or a script is shown of a scene.

font, drawing, layout   text, shapes and where panels stand (pure)
panels, sheets, band    agents, tables, and the maps and course below them (pure)
window                  all of it as one list of what to paint (pure)
keys, watcher           what keys mean (pure); the person before the window
painter, viewer         the list on a surface, and the window that it is in
reel, films, film       the last minutes (pure), kept as GIF or MP4
lines, headless         a line an agent and second, for people and for scripts
recorder                what a viewer got, as events of the run
"""
