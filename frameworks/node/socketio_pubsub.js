// @socket.io/redis-adapter: Two servers: rooms, acknowledgements, sockets of the other.
const http = require("http");
const { Server } = require("socket.io");
const { io } = require("socket.io-client");
const { createClient } = require("redis");
const { createAdapter } = require("@socket.io/redis-adapter");

async function start() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const adapter = createAdapter(client, await client.duplicate().connect());
  const web = http.createServer();
  const server = new Server(web, { adapter });
  server.on("connection", (socket) => {
    socket.join("room");
    socket.on("say", (text, done) => { server.to("room").emit("said", text); done(); });
  });
  await new Promise((done) => web.listen(0, "127.0.0.1", done));
  return { server, port: web.address().port };
}
async function main() {
  const servers = [await start(), await start()];
  // Each listens for requests once its adapter is ready.
  const asks = await createClient({ url: process.env.REDIS_URL }).connect();
  const ready = async () => (await asks.sendCommand(["PUBSUB", "NUMSUB", "socket.io-request#/#"]))[1] >= servers.length;
  while (!await ready()) await new Promise((done) => setTimeout(done, 20));
  const clients = servers.map(({ port }) => io(`http://127.0.0.1:${port}`, { transports: ["websocket"] }));
  await Promise.all(clients.map((client) => new Promise((done) => client.once("connect", done))));
  const heard = clients.map((client) => new Promise((done) => client.once("said", done)));
  await clients[0].emitWithAck("say", "hello");
  console.log(await Promise.all(heard));
  console.log((await servers[0].server.in("room").fetchSockets()).length);
  clients.forEach((client, i) => client.on("ask", (done) => done(i)));
  console.log((await servers[1].server.timeout(5000).emitWithAck("ask")).sort());
  const gone = new Promise((done) => clients[1].once("disconnect", done));
  servers[0].server.in("room").disconnectSockets();
  console.log(await gone);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
