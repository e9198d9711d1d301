"""Browser view of runs and evaluations, down to each turn of each episode (`resume-gym view`).

`data.py` reads a folder, `rows.py` and `episode.py` convert its episodes, `search.py` finds text in
them, `played.py` names the tasks that were played, `listing.py` lists the runs and evaluations in a
folder, `html.py` builds the page or exports a page with data, and `server.py` serves the page.
"""
