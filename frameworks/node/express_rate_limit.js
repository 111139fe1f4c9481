// rate-limit-redis: An express app answers 429 past its limit, counted by a script.
const express = require("express");
const { rateLimit } = require("express-rate-limit");
const { RedisStore } = require("rate-limit-redis");
const { createClient } = require("redis");

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const app = express();
  const store = new RedisStore({ sendCommand: (...args) => client.sendCommand(args) });
  app.use(rateLimit({ windowMs: 60000, limit: 4, store, validate: false, standardHeaders: true }));
  app.get("/", (request, response) => response.send("welcome"));
  const server = await new Promise((done) => { const s = app.listen(0, "127.0.0.1", () => done(s)); });
  const codes = [];
  for (let i = 0; i < 6; i++) codes.push((await fetch(`http://127.0.0.1:${server.address().port}/`)).status);
  console.log(codes, (await client.keys("rl:*")).length);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
