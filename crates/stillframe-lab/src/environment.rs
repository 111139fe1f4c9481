//! Where figures come from, and what makes them doubtful.

use std::fs;
use std::sync::OnceLock;

use crate::cores;
use crate::memory::field_bytes;
use crate::record::Environment;

/// Load of others, by core, above which a run is told to be on a busy machine.
const LOAD_BUSY: f64 = 0.5;

/// The machine as it was when this was first called, so that the load is that of others.
pub fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(look)
}

fn look() -> Environment {
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok());
    let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = huge_pages.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let mut environment = Environment {
        cpu: cpu.trim_start_matches(['\t', ':', ' ']).to_owned(),
        cores: cores::allowed().len(),
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
    if environment.load > LOAD_BUSY * environment.cores as f64 {
        warnings.push(format!(
            "the machine was busy before the run (load {:.2} on {} cores): figures are noisy",
            environment.load, environment.cores
        ));
    }
    if environment.cores < 2 {
        warnings.push("one core: writer and snapshotter take turns on it".to_owned());
    }
    warnings
}

/// Memory that can be had without swapping, the limit of a control group included.
pub(crate) fn available_bytes() -> u64 {
    let machine = field_bytes(&read("/proc/meminfo"), "MemAvailable:");
    let number = |name: &str| read(&format!("/sys/fs/cgroup/{name}")).trim().parse::<u64>().ok();
    match (number("memory.max"), number("memory.current")) {
        (Some(most), Some(used)) => machine.min(most.saturating_sub(used)),
        _ => machine,
    }
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
        assert!(!environment.kernel.is_empty() && available_bytes() > 0);
    }

    #[test]
    fn doubtful_figures_are_told() {
        let calm = Environment { cores: 2, profile: "release".into(), ..Environment::default() };
        assert!(warnings(&calm).is_empty());
        let busy = Environment { load: 1.1, profile: "debug".into(), ..calm };
        assert_eq!(warnings(&busy).len(), 2);
    }
}
