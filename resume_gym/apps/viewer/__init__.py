"""Browser view of runs and evaluations, down to each turn of each episode (`resume-gym view`).

`data.py` reads a folder, `rows.py` and `episode.py` convert its episodes, `listing.py` lists the
runs and evaluations in a folder, `html.py` builds the page or exports a page with data, and
`server.py` serves the page.
"""
