//! Where figures come from, and what makes them doubtful.

use std::fs;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

/// Where figures were measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Processor, as it calls itself.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Transparent huge pages: always, madvise or never.
    pub huge_pages: String,
    /// Load average of the last minute, when the measurement started.
    pub load: f64,
    /// Commit of the source, if it is known.
    pub commit: Option<String>,
    /// `release` or `debug`.
    pub profile: String,
    /// What makes these figures doubtful, one sentence each.
    pub warnings: Vec<String>,
}

/// Load of others, by core, above which a machine counts as busy.
const LOAD_BUSY: f64 = 0.5;

impl Environment {
    /// One sentence if others kept the machine busy before the run.
    #[must_use]
    pub fn busy(&self) -> Option<String> {
        let Self { load, cores, .. } = self;
        (*load > LOAD_BUSY * *cores as f64).then(|| {
            format!("the machine was busy before the run (load {load:.2} on {cores} cores): figures are noisy")
        })
    }
}

/// The machine as it was when this was first called, so that the load is that of others.
pub fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(read_environment)
}

fn read_environment() -> Environment {
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok());
    let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = huge_pages.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let mut environment = Environment {
        cpu: cpu.trim_start_matches(['\t', ':', ' ']).to_owned(),
        cores: allowed_cores().len(),
        memory_bytes: field_bytes(&read("/proc/meminfo"), "MemTotal:"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        huge_pages: chosen.map_or("never", |(chosen, _)| chosen).to_owned(),
        load: load.unwrap_or_default(),
        commit: option_env!("STILLFRAME_COMMIT").map(str::to_owned),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        warnings: Vec::new(),
    };
    environment.warnings = warnings(&environment);
    environment
}

fn warnings(environment: &Environment) -> Vec<String> {
    let mut warnings = Vec::new();
    if environment.profile == "debug" {
        warnings.push("this is a debug build: figures mean nothing; use --release".to_owned());
    }
    warnings.extend(environment.busy());
    if environment.cores < 2 {
        warnings.push("one core: everything that runs takes turns on it".to_owned());
    }
    warnings
}

/// The cores that this process may use.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// A line such as `Pss:    123 kB`, as files under `/proc` have it; 0 without one.
#[must_use]
pub fn field_bytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kibibytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or_default().saturating_mul(1024)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = environment();
        assert!(environment.cores >= 1 && environment.memory_bytes > 1 << 28);
        assert!(!environment.kernel.is_empty());
        assert_eq!(field_bytes("Rss: 1 kB\nPss:       12 kB\n", "Pss:"), 12 << 10);
        assert_eq!(field_bytes("", "Pss:"), 0);
    }

    #[test]
    fn doubtful_figures_are_reported() {
        let calm = Environment { cores: 2, profile: "release".into(), ..Environment::default() };
        assert!(warnings(&calm).is_empty() && calm.busy().is_none());
        let busy = Environment { load: 1.1, profile: "debug".into(), ..calm };
        assert_eq!(warnings(&busy).len(), 2);
        assert!(busy.busy().is_some_and(|it| it.contains("load 1.10 on 2 cores")));
    }
}
