select side, count(*) as n, sum(quantity) as q, avg(price) as p, min(note) as m from orders group by side order by side
select c.name, count(*) as n, sum(o.price * o.quantity) as turnover from orders o join customers c on o.customer = c.slot group by c.name order by c.name
select slot, price from orders order by price desc, slot limit 20
select count(*) as n, count(customer) as c, count(note) as m from orders
select o.slot from orders o left join customers c on o.customer = c.slot where c.slot is null order by o.slot
select total from customers order by length(total), total limit 5
select count(*) as n, min(key) as a, max(key) as b from days
select d.key, p.value from days d join prices p on p.index = d.key where p.value > 0 order by d.key
select index, value, sum(value) over (order by index) as s from shards_1_depth order by index
select length(note) as l, count(*) as n from orders where note is not null group by length(note) order by l
