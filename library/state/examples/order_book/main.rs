//! An order book with price and time priority, kept by checkpoints alone, and checked by replay.
//!
//! ```text
//! cargo run --release -p stillframe-state --example order_book -- DIRECTORY [COMMANDS]
//! ```
//!
//! Runs so many commands (1,000,000) on the book in the directory, from where the last run ended
//! or was killed, with a checkpoint a second. Command `n` follows from the number `n` alone, so
//! the book is then checked: the same commands in plain memory must lead to the same words.

mod book;

use std::error::Error;
use std::time::{Duration, Instant};

use book::Book;
use stillframe_state::{State, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: order_book DIRECTORY [COMMANDS]")?;
    let commands = arguments.next().map_or(Ok(1_000_000), |count| count.parse::<u64>())?;
    // Room for 2^26 words, half a gigabyte.
    let options = Book::options("order-book", 1 << 26);
    let options = options.every(Duration::from_secs(1)).checkpoint_on_close();
    let mut store: Store = Store::open(&directory, options)?;
    let book = Book::attach(&mut store)?;
    println!("going on from command {}", book.commands.get(&store));

    let started = Instant::now();
    for _ in 0..commands {
        book.step(&mut store, 0)?;
        store.point();
    }
    let rate = commands as f64 / started.elapsed().as_secs_f64();
    let waiting = book.orders.len(&store);
    let traded = book.traded.get(&store);
    println!("{rate:.0} commands a second, {waiting} orders wait, {traded} pieces were traded");

    let mut plain = vec![0; Book::layout().words()];
    let again = Book::attach(&mut plain)?;
    while again.commands.get(&plain) < book.commands.get(&store) {
        again.step(&mut plain, 0)?;
    }
    let differs = (0..store.words().min(plain.len())).find(|&word| store.read(word) != plain[word]);
    if let Some(word) = differs {
        return Err(format!("word {word} is not that of a replay").into());
    }
    println!("checked by a replay of {} commands", book.commands.get(&store));
    store.close()?;
    Ok(())
}
