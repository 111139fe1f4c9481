//! A bank: transfers on several threads, a balance sheet of one instant meanwhile.
//!
//! `cargo run --release -p stillframe-transactions --example bank`

use std::sync::atomic::{AtomicBool, Ordering};

use stillframe_transactions::{Engine, Imprint, Records, Settings, Stop};

const ACCOUNTS: usize = 100_000;
const EACH: u64 = 1_000;

/// Adds up all balances of an image.
#[derive(Default)]
struct Sheet {
    accounts: usize,
    total: u64,
}

impl Records for Sheet {
    type Error = std::convert::Infallible;
    fn record(&mut self, _account: usize, words: Option<&[u64]>) -> Result<(), Self::Error> {
        self.accounts += 1;
        self.total += words.map_or(0, |words| words[0]);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine: Engine<Imprint> = Engine::create(Settings::new(ACCOUNTS, 1))?;
    for account in 0..ACCOUNTS {
        engine.run(|tx| Ok::<_, Stop<()>>(tx.write(account, 0, EACH)?)).expect("no abort");
    }
    let over = AtomicBool::new(false);
    let transfers: u64 = std::thread::scope(|scope| {
        let clerks: Vec<_> = (1..=2_usize)
            .map(|clerk| {
                let (engine, over) = (&engine, &over);
                scope.spawn(move || {
                    let mut worker = engine.worker().expect("there are sixteen");
                    let (mut done, mut at) = (0, clerk);
                    while !over.load(Ordering::Relaxed) {
                        at = (at * 48_271) % 2_147_483_647;
                        let (from, to) = (at % ACCOUNTS, at / 7 % ACCOUNTS);
                        let moved = worker.run(|tx| {
                            let have = tx.read(from, 0)?;
                            if have < 10 {
                                return Err(Stop::Abort("not enough"));
                            }
                            tx.write(from, 0, have - 10)?;
                            tx.update(to, 0, |there| there + 10)?;
                            Ok(())
                        });
                        done += u64::from(moved.is_ok());
                    }
                    done
                })
            })
            .collect();
        for _ in 0..5 {
            let image = engine.begin().expect("the one before has ended");
            let (number, mut sheet) = (image.number(), Sheet::default());
            image.capture(&mut sheet).expect("memory for before-images is there");
            println!("image {number}: {} accounts hold {}", sheet.accounts, sheet.total);
            assert_eq!(sheet.total, ACCOUNTS as u64 * EACH);
        }
        over.store(true, Ordering::Relaxed);
        clerks.into_iter().map(|clerk| clerk.join().expect("a clerk ends")).sum()
    });
    println!("{transfers} transfers meanwhile");
    Ok(())
}
