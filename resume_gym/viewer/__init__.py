"""`resume-gym view`: runs and evaluations in a browser, down to each turn of each episode.

`data` reads a folder, `rows` and `episode` make of it what `page` shows, `command` serves the page
or writes it into one file.
"""
