// connect-redis: An express session counts the visits of a client, and is destroyed.
const express = require("express");
const session = require("express-session");
const { RedisStore } = require("connect-redis");
const { createClient } = require("redis");

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const app = express();
  const store = new RedisStore({ client, ttl: 60 });
  app.use(session({ store, secret: "x", resave: false, saveUninitialized: false }));
  app.get("/", (request, response) => {
    request.session.visits = (request.session.visits || 0) + 1;
    response.send(String(request.session.visits));
  });
  app.get("/out", (request, response) => request.session.destroy(() => response.send("out")));
  const server = await new Promise((done) => { const s = app.listen(0, "127.0.0.1", () => done(s)); });
  const url = `http://127.0.0.1:${server.address().port}`;
  let cookie, visits = [];
  for (let i = 0; i < 4; i++) {
    const response = await fetch(url, { headers: cookie ? { cookie } : {} });
    cookie = cookie || response.headers.get("set-cookie").split(";")[0];
    visits.push(await response.text());
  }
  const [key] = await client.keys("sess:*");
  console.log(visits, (await client.ttl(key)) > 50, await store.length());
  await fetch(url + "/out", { headers: { cookie } });
  console.log(await store.length(), await (await fetch(url, { headers: { cookie } })).text());
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
