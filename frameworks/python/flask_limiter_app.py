# Flask-Limiter: A Flask app answers 429 past its moving window.
import os

from flask import Flask
from flask_limiter import Limiter

app = Flask(__name__)
limiter = Limiter(lambda: "client", app=app, storage_uri=os.environ["REDIS_URL"],
                  strategy="moving-window", headers_enabled=True)


@app.route("/")
@limiter.limit("5 per hour")
def index():
    return "welcome"


client = app.test_client()
print([client.get("/").status_code for _ in range(7)])
print(client.get("/").headers["X-RateLimit-Remaining"])
