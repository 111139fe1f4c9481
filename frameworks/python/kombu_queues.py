# kombu: Queues with priorities, a fanout exchange, and a message put back.
import os
import socket

from kombu import Connection, Exchange, Queue

with Connection(os.environ["REDIS_URL"],
                transport_options={"queue_order_strategy": "priority"}) as connection:
    with connection.SimpleQueue("letters") as queue:
        for number, priority in enumerate([9, 0, 6, 3]):
            queue.put({"number": number}, priority=priority)
        got = []
        for _ in range(4):
            message = queue.get(timeout=5)
            got.append(message.payload["number"])
            message.ack()
        print("by priority", got)
        queue.put("again")
        queue.get(timeout=5).requeue()
        message = queue.get(timeout=5)
        message.ack()
        print("again", message.payload, message.delivery_info.get("redelivered"))
    news = Exchange("news", type="fanout")
    seen = []
    # One queue of a fanout exchange to a connection.
    with Connection(os.environ["REDIS_URL"]) as other, connection.Producer() as producer:
        consumers = []
        for each, name in ((connection, "one"), (other, "two")):
            consumer = each.Consumer([Queue(name, exchange=news)],
                                     callbacks=[lambda body, m: (seen.append(body), m.ack())])
            consumer.consume()
            try:
                each.drain_events(timeout=0.3)
            except socket.timeout:
                consumers.append(consumer)
        producer.publish("hello", exchange=news)
        connection.drain_events(timeout=5)
        other.drain_events(timeout=5)
    print("fanout", seen)
