# slowapi: A FastAPI app answers 429 past its fixed window.
import os

from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded

limiter = Limiter(key_func=lambda: "client", storage_uri=os.environ["REDIS_URL"])
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/")
@limiter.limit("3/hour")
async def index(request: Request):
    return "welcome"


client = TestClient(app)
print([client.get("/").status_code for _ in range(5)])
