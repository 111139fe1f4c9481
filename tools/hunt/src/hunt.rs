//! The hunt: fill, write, take images and judge them, one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::HuntError;
use crate::image::{self, Reading};
use crate::judge::{Class, Fault, Judge};
use crate::link::Link;
use crate::plan::Plan;
use crate::report::{Found, Report};
use crate::sync::{Synced, sync};
use crate::workload::Workload;
use crate::writers::Writers;

/// How often INFO is asked whether a save has ended.
const SAVE_LOOK: Duration = Duration::from_millis(10);
/// Marks that may fail to meet the server's offset: the server may send a PING between a mark and
/// the reply that shows its offset.
const MARKS: u32 = 5;

/// Judges images of the target until the plan's limits, or until `stop` is raised.
///
/// # Errors
/// [`HuntError`]: why there is no verdict.
pub fn hunt(plan: &Plan, stop: &AtomicBool) -> Result<Report, HuntError> {
    plan.check().map_err(HuntError::Plan)?;
    let started = Instant::now();
    let mut link = Link::open(plan, stop)?;
    let server = server(&mut link)?;
    let moves = link.call(&["SELECT", "1"])?.is_ok();
    link.ok(&["SELECT", "0"])?;
    let Plan { seed, writers: count, keys, .. } = *plan;
    let workload = Workload { seed, writers: count, keys, moves };
    link.all(&workload.fill(), "storing the keys")?;
    let writers = Writers::new(count);
    let mut hunter = Hunter {
        plan,
        stop,
        link,
        prefix: workload.prefix(),
        mark: workload.mark(),
        judge: Judge::new(workload.clone()),
        writers: &writers,
        report: Report {
            target: plan.target.clone(),
            server,
            images_by: if plan.dump.is_some() { "dump" } else { "sync" },
            seed,
            images: 0,
            transactions: 0,
            transactions_during_images: 0,
            keys: 0,
            moves,
            labels: plan.dump.is_none(),
            seconds: 0.0,
            found: Class::ALL.map(Found::none).to_vec(),
            interrupted: false,
        },
    };
    let outcome = thread::scope(|scope| {
        let outcome = start(scope, plan, &workload, &writers).and_then(|()| hunter.go(started));
        writers.end();
        outcome
    });
    match outcome {
        Err(HuntError::Interrupted) if hunter.report.images > 0 => hunter.report.interrupted = true,
        outcome => outcome?,
    }
    hunter.report.transactions = writers.acknowledged().iter().sum();
    hunter.report.seconds = started.elapsed().as_secs_f64();
    if !hunter.report.interrupted {
        hunter.link.all(&workload.delete(), "deleting the keys")?;
    }
    Ok(hunter.report)
}

fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    plan: &'scope Plan,
    workload: &'scope Workload,
    writers: &'scope Writers,
) -> Result<(), HuntError> {
    for writer in 0..plan.writers {
        let write = move || writers.write(plan, workload, writer);
        thread::Builder::new().spawn_scoped(scope, write).map_err(HuntError::Thread)?;
    }
    writers.resume(plan)
}

/// Name and version.
fn server(link: &mut Link<'_>) -> Result<String, HuntError> {
    let info = link.ok(&["INFO", "server"])?;
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let names = [("stillframe_version", "stillframe"), ("valkey_version", "Valkey")];
    let named = names.iter().find_map(|(name, is)| Some(format!("{is} {}", field(name)?)));
    let redis = || field("redis_version").map(|version| format!("redis-server {version}"));
    Ok(named.or_else(redis).unwrap_or_else(|| "a server that does not say its version".to_owned()))
}

struct Hunter<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    link: Link<'a>,
    prefix: String,
    mark: String,
    judge: Judge,
    writers: &'a Writers,
    report: Report,
}

/// An image as it came.
struct Taken<'a> {
    bytes: Vec<u8>,
    synced: Option<Synced<'a>>,
}

impl<'a> Hunter<'a> {
    fn go(&mut self, started: Instant) -> Result<(), HuntError> {
        while self.report.images < self.plan.images
            && self.plan.time.is_none_or(|time| started.elapsed() < time)
        {
            if self.stop.load(Ordering::Relaxed) {
                return Err(HuntError::Interrupted);
            }
            let low = self.writers.acknowledged();
            let taken = match &self.plan.dump {
                None => {
                    let (synced, bytes) = sync(self.plan, self.stop)?;
                    Taken { bytes, synced: Some(synced) }
                }
                Some(_) => Taken { bytes: self.save()?, synced: None },
            };
            let during = self.writers.acknowledged();
            let high = self.writers.sent();
            self.writers.failure()?;
            let acknowledged = during.iter().zip(&low).map(|(now, then)| now - then);
            self.report.transactions_during_images += acknowledged.sum::<u64>();
            let faults = self.judge(taken, &low, &high)?;
            self.note(faults);
        }
        Ok(())
    }

    fn note(&mut self, faults: Vec<Fault>) {
        self.report.images += 1;
        for Fault { class, text, count } in faults {
            let Some(found) = self.report.found.iter_mut().find(|it| it.class == class) else {
                continue;
            };
            found.images += 1;
            if found.images == 1 {
                let more = if count > 1 { format!(" ({count} such)") } else { String::new() };
                (found.first_image, found.first) = (self.report.images, text + &more);
            }
        }
    }

    /// Makes the server write its dump file, and reads it.
    fn save(&mut self) -> Result<Vec<u8>, HuntError> {
        const DOING: &str = "waiting for a save to end";
        let deadline = self.link.deadline();
        loop {
            match self.link.call(&["BGSAVE"])? {
                Ok(_) => break,
                Err(answer) if answer.contains("in progress") && Instant::now() < deadline => {
                    thread::sleep(SAVE_LOOK);
                }
                Err(answer) => return Err(self.link.refused("BGSAVE", answer)),
            }
        }
        while self.link.info("persistence", "rdb_bgsave_in_progress")? != "0" {
            if Instant::now() > deadline {
                return Err(self.link.wrong(DOING, "the save does not end within --patience"));
            }
            thread::sleep(SAVE_LOOK);
        }
        let status = self.link.info("persistence", "rdb_last_bgsave_status")?;
        if status != "ok" {
            return Err(self.link.wrong(DOING, "the save failed: see the log of the server"));
        }
        let path = self.plan.dump.clone().unwrap_or_default();
        std::fs::read(&path).map_err(|error| HuntError::Dump { path, error })
    }

    fn judge(
        &mut self,
        taken: Taken<'a>,
        low: &[u64],
        high: &[u64],
    ) -> Result<Vec<Fault>, HuntError> {
        // The writers stand still while an image is judged: otherwise they would outrun the judge.
        self.writers.pause(self.plan)?;
        let faults = self.faults(taken, low, high)?;
        self.writers.resume(self.plan)?;
        Ok(faults)
    }

    fn faults(
        &mut self,
        taken: Taken<'a>,
        low: &[u64],
        high: &[u64],
    ) -> Result<Vec<Fault>, HuntError> {
        let mut image = match image::read(&taken.bytes, self.prefix.as_bytes()) {
            Ok(image) => image,
            // An unreadable image shows no whole transaction.
            Err(text) => return Ok(vec![Fault { class: Class::Torn, text, count: 1 }]),
        };
        self.report.keys = image.contents.len() as u64;
        let mut faults = self.judge.judge(&image.contents, low, high);
        if let Some(mut synced) = taken.synced {
            let whole = faults.iter().all(|fault| fault.class == Class::Stale);
            if let Some(text) = self.label(&mut synced, &mut image, whole)? {
                faults.push(Fault { class: Class::Mislabelled, text, count: 1 });
            }
        }
        Ok(faults)
    }

    /// Finds what is wrong with the image's label: its stream has to lead from the image to the
    /// live state, at the server's own offset. The writers stand still.
    fn label(
        &mut self,
        synced: &mut Synced<'_>,
        image: &mut Reading,
        whole: bool,
    ) -> Result<Option<String>, HuntError> {
        let Synced { offset, ref repl_id, .. } = *synced;
        if let Some(inside) = image.repl_offset.filter(|&it| u64::try_from(it) != Ok(offset)) {
            return Ok(Some(format!("the image says offset {inside}, its announcement {offset}")));
        }
        if let Some(inside) = image.repl_id.as_ref().filter(|&it| it != repl_id) {
            return Ok(Some(format!("the image says replication id {inside}, not {repl_id}")));
        }
        let mut stream = Ok(());
        let mut apart = None;
        for mark in 0..MARKS {
            let value = format!("{}.{mark}", self.report.images);
            self.link.ok(&["SET", &self.mark, &value])?;
            let words = [self.mark.as_str(), &value];
            let followed = synced.follow(&mut image.contents, &self.prefix, words)?;
            stream = stream.and(followed);
            let live = self.link.info("replication", "master_repl_offset")?;
            let reached = offset.saturating_add(synced.followed);
            if live == reached.to_string() {
                apart = None;
                break;
            }
            apart = Some(format!(
                "the image is announced with offset {offset}, and {} bytes follow up to the \
                 server's offset {live}",
                synced.followed
            ));
        }
        if apart.is_some() || !whole {
            return Ok(apart);
        }
        if let Err(problem) = stream {
            return Ok(Some(format!("the stream behind offset {offset} does not fit: {problem}")));
        }
        let counts = self.writers.acknowledged();
        let differs = self.judge.difference(&image.contents, &counts);
        Ok(differs.map(|text| {
            format!("image and stream behind offset {offset} do not make the live state: {text}")
        }))
    }
}
