"""Compares answers in a folder with those of DuckDB over the CSV files there: duckdb_answers.py DIR"""

import csv
import sys
from pathlib import Path

import duckdb

out = Path(sys.argv[1])
db = duckdb.connect()
for table in out.glob("*.csv"):
    kinds = {"orders": {"note": "VARCHAR", "side": "VARCHAR", "customer": "UBIGINT"},
             "customers": {"name": "VARCHAR", "total": "VARCHAR"}, "blobs": {"value": "VARCHAR"}}
    db.read_csv(str(table), header=True, quotechar='"', escapechar='"', strict_mode=True,
                dtype=kinds.get(table.stem), allow_quoted_nulls=False).create(table.stem)
questions = (Path(__file__).parent / "questions.sql").read_text().splitlines()


def same(found, wanted):
    if wanted is None:
        return found == ""
    if isinstance(wanted, float):
        return abs(float(found) - wanted) <= 1e-9 * max(1.0, abs(wanted))
    return found == str(wanted)


for number, question in enumerate(questions):
    wanted = db.sql(question).fetchall()
    with (out / f"{number}.answer").open(newline="") as file:
        found = list(csv.reader(file))[1:]
    assert len(found) == len(wanted), (question, len(found), len(wanted))
    for row, other in zip(found, wanted):
        assert all(map(same, row, other)), (question, row, other)
print(f"{len(questions)} answers are the same")
