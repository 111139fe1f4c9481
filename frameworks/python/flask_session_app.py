# Flask-Session: A session survives the requests of a client, and its clearing.
import os

import redis
from flask import Flask, session
from flask_session import Session

app = Flask(__name__)
connection = redis.Redis.from_url(os.environ["REDIS_URL"])
app.config.update(SESSION_TYPE="redis", SESSION_REDIS=connection, SECRET_KEY="x")
Session(app)


@app.route("/count")
def count():
    session["count"] = session.get("count", 0) + 1
    return str(session["count"])


@app.route("/out")
def out():
    session.clear()
    return "out"


client = app.test_client()
print([client.get("/count").text for _ in range(5)], app.test_client().get("/count").text)
keys = connection.keys("session:*")
print(len(keys), all(connection.ttl(key) > 0 for key in keys))
client.get("/out")
print(client.get("/count").text)
