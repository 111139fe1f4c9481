//! The standard mix keeps what must hold, on live states and in images of every algorithm, and a
//! log of requests leads to the same state.

use std::thread;

use stillframe::algorithms::{ALL, Visitor, dispatch};
use stillframe::{Algorithm, Image, Options, Point, Sink, SinkError};
use stillframe_lab::tpcc::{
    Customer, Item, Layout, Malformed, Names, Outcome, Plan, Read, Request, Scale, Words, check,
    fill, run,
};
use stillframe_measure::draw::Rng;

fn tiny(orders_room: usize) -> Layout {
    Layout::new(Scale { orders_room, ..Scale::tiny(2) }).expect("small tables")
}

fn filled(layout: &Layout) -> Vec<u64> {
    let mut state = vec![0; layout.words()];
    fill(layout, &mut state, 1);
    state
}

fn drawn(layout: &Layout, seed: u64, count: u64) -> Vec<Request> {
    let (plan, mut random) = (Plan::new(seed), Rng(seed));
    (2..count + 2).map(|now| plan.draw(layout, &mut random, now)).collect()
}

#[test]
fn the_mix_is_the_standard_one_and_keeps_all_conditions() {
    let layout = tiny(2000);
    let mut state = filled(&layout);
    check(&layout, &state).expect("as it is at first");
    let names = Names::read(&layout, &state);
    let (mut counts, mut rolled_back, mut remote) = ([0; 5], 0, 0);
    let requests = drawn(&layout, 3, 20_000);
    for request in &requests {
        let outcome = run(&layout, &names, &mut state, request);
        let kind = match (request, outcome) {
            (Request::NewOrder { .. }, Outcome::Ordered { total: 1.., .. }) => 0,
            (Request::NewOrder { .. }, Outcome::RolledBack) => {
                rolled_back += 1;
                0
            }
            (Request::Payment { warehouse, home, .. }, Outcome::Paid(_)) => {
                remote += u64::from(home.0 != *warehouse);
                1
            }
            (Request::OrderStatus { .. }, Outcome::Status { .. }) => 2,
            (Request::Delivery { .. }, Outcome::Delivered(0..=10)) => 3,
            (Request::StockLevel { .. }, Outcome::Low(_)) => 4,
            other => panic!("{other:?}"),
        };
        counts[kind] += 1;
    }
    check(&layout, &state).expect("after 20,000 transactions");
    for (count, share) in counts.into_iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
        let found = f64::from(count) / 200.0;
        assert!((found - share).abs() < 1.5, "{found} % in place of {share} %");
    }
    assert!((40..160).contains(&rolled_back), "{rolled_back} of some 90 are rolled back");
    assert!((900..1700).contains(&remote), "{remote} of some 1290 pay elsewhere");
}

#[test]
fn a_district_that_is_full_refuses_and_what_is_refused_writes_nothing() {
    let layout = tiny(31);
    let mut state = filled(&layout);
    let names = Names::read(&layout, &state);
    let items = vec![Item { number: 3, supplier: 1, quantity: 2 }; 5];
    let order = Request::NewOrder { warehouse: 0, district: 4, customer: 7, items, now: 5 };
    let Request::NewOrder { mut items, .. } = order.clone() else { unreachable!() };
    items[4].number = layout.scale.items;
    let wrong = Request::NewOrder { warehouse: 0, district: 4, customer: 7, items, now: 5 };
    let nobody = Request::Payment {
        warehouse: 0,
        district: 0,
        home: (0, 0),
        customer: Customer::Name(999),
        amount: 100,
        now: 5,
    };
    let before = state.clone();
    assert_eq!(run(&layout, &names, &mut state, &wrong), Outcome::RolledBack);
    assert_eq!(run(&layout, &names, &mut state, &nobody), Outcome::Nobody);
    assert!(state == before, "a transaction that is rolled back has written");
    let done = run(&layout, &names, &mut state, &order);
    assert!(matches!(done, Outcome::Ordered { number: 31, .. }), "{done:?}");
    let before = state.clone();
    assert_eq!(run(&layout, &names, &mut state, &order), Outcome::Full);
    assert!(state == before, "a transaction that is refused has written");
    let customer = Customer::Number(7);
    let status = Request::OrderStatus { warehouse: 0, district: 4, customer };
    let Outcome::Status { number: 31, amount, balance: -1000 } =
        run(&layout, &names, &mut state, &status)
    else {
        panic!("the order is the customer's last one");
    };
    // The new orders before it are delivered first.
    for turn in 0..10 {
        let delivery = Request::Delivery { warehouse: 0, carrier: 3, now: 9 };
        let Outcome::Delivered(count) = run(&layout, &names, &mut state, &delivery) else {
            panic!("it was no delivery");
        };
        assert_eq!(count, if turn < 9 { 10 } else { 1 });
    }
    let Outcome::Status { balance, .. } = run(&layout, &names, &mut state, &status) else {
        panic!("it was no status");
    };
    assert!(balance >= amount as i64 - 1000, "what was delivered is due: {balance}");
    check(&layout, &state).expect("all holds");
}

#[test]
fn a_state_that_is_torn_breaks_a_condition() {
    let layout = tiny(60);
    let state = filled(&layout);
    let names = Names::read(&layout, &state);
    let mut later = state.clone();
    for request in drawn(&layout, 5, 200) {
        run(&layout, &names, &mut later, &request);
    }
    check(&layout, &later).expect("a state that is whole");
    for (from, to) in [(0, layout.words() / 2), (layout.words() / 2, layout.words())] {
        let mut torn = later.clone();
        torn[from..to].copy_from_slice(&state[from..to]);
        check(&layout, &torn).expect_err("a half is of another moment");
    }
}

#[test]
fn a_log_of_requests_leads_to_the_same_state() {
    let layout = tiny(500);
    let mut state = filled(&layout);
    let mut replayed = state.clone();
    let names = Names::read(&layout, &state);
    for request in drawn(&layout, 11, 3000) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let read = Request::decode(&layout, &bytes);
        assert_eq!(read.as_ref(), Ok(&request));
        let read = read.expect("it was compared");
        let outcome = run(&layout, &names, &mut state, &request);
        assert_eq!(run(&layout, &names, &mut replayed, &read), outcome);
        for end in 0..bytes.len() {
            // Fewer lines are an order as well.
            let shorter = Request::decode(&layout, &bytes[..end]);
            let is_order = matches!(shorter, Ok(Request::NewOrder { .. }));
            assert!(shorter == Err(Malformed) || is_order, "{shorter:?}");
        }
    }
    assert!(state == replayed, "the same requests lead to another state");
    let mut random = Rng(1);
    for _ in 0..20_000 {
        let words = random.below(12);
        let word = |random: &mut Rng| random.next() >> random.below(64);
        let bytes: Vec<u8> = (0..words).flat_map(|_| word(&mut random).to_le_bytes()).collect();
        if let Ok(request) = Request::decode(&layout, &bytes) {
            run(&layout, &names, &mut state, &request);
        }
    }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    for scale in [
        Scale::full(0),
        Scale::full(usize::MAX / 1000),
        Scale { items: 3, ..Scale::tiny(1) },
        Scale { orders_room: 10, ..Scale::tiny(1) },
        Scale { districts: 0, ..Scale::tiny(1) },
    ] {
        assert!(Layout::new(scale).is_err(), "{scale:?}");
    }
    let bytes = Layout::new(Scale::full(1)).expect("it fits").words() * 8;
    assert!((80_000_000..160_000_000).contains(&bytes), "{bytes} bytes a warehouse");
}

/// A state with images.
struct Imaged<A>(A);

impl<A: Algorithm> Read for Imaged<A> {
    fn read(&self, word: usize) -> u64 {
        self.0.read(word)
    }
}

impl<A: Algorithm> Words for Imaged<A> {
    fn write(&mut self, word: usize, value: u64) {
        self.0.write(word, value);
    }
}

/// What images hold: an increment is laid over what was there before.
#[derive(Default)]
struct Laid(Vec<u64>);

impl Sink for Laid {
    fn push(&mut self, start: usize, words: &[u64]) -> Result<(), SinkError> {
        let end = start + words.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[start..end].copy_from_slice(words);
        Ok(())
    }
}

struct Life;

impl Visitor for Life {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        if A::available().is_err() {
            return;
        }
        let layout = tiny(100);
        let state = A::create(&Options::words(layout.words())).expect("memory");
        let mut state = Imaged(state);
        fill(&layout, &mut state, 1);
        let names = Names::read(&layout, &state);
        let mut sink = Laid::default();
        for (turn, requests) in drawn(&layout, 17, 800).chunks(200).enumerate() {
            let due: Vec<u64> = (0..layout.words()).map(|word| state.read(word)).collect();
            let image = state.0.begin(Point::declare(), std::mem::take(&mut sink));
            let mut image = image.expect("the one before has ended");
            let captured = thread::spawn(move || image.capture().map(|_| image.into_sink()));
            for request in requests {
                run(&layout, &names, &mut state, request);
                state.0.tend();
            }
            while !captured.is_finished() {
                state.0.tend();
            }
            sink = captured.join().expect("no panic").expect("a captured image");
            let name = state.0.info().name;
            assert!(
                sink.0[..due.len()] == due,
                "{name}, image {turn} is not the state at its begin"
            );
            check(&layout, &sink.0).unwrap_or_else(|broken| panic!("{name}: {broken}"));
        }
        check(&layout, &state).expect("the live state");
    }
}

#[test]
fn images_of_every_algorithm_keep_all_conditions() {
    // Those of a fork are in the memory of a child, which a sink of files could read alone.
    for info in ALL.iter().filter(|info| info.in_process) {
        dispatch(info.name, Life).expect("it is registered");
    }
}
