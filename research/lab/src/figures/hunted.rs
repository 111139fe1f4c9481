//! Images of servers that nobody trusts beforehand: how many are wrong.

use anyhow::Result;

use super::data::Data;
use super::deciding::Extent;
use super::judge::Judgement;
use super::plan::Size;
use super::{Claim, Direct, Figure};
use crate::case::{REDIS, VALKEY};
use crate::report::{Kind, Panel, Point, Series};
use crate::served::hunted;

/// Every server there is, and ours with an algorithm of each kind.
const SERVERS: [&str; 7] =
    [REDIS, VALKEY, "imprint", "fork", "naive", "hourglass-copy", "npp-copy"];
const WRONG: &str = "wrong images";
const MEANWHILE: &str = "transactions meanwhile";

pub(super) const FIGURE: Figure = Figure {
    name: "ours-4",
    source: "ours",
    title: "torn, stale, missing and mislabelled images of servers",
    workload: "Transactions of two writers at full speed, 20,000 keys of each type's share; one \
               full sync after the other, loaded and judged against what the transactions leave.",
    direct: Some(Direct {
        seconds: |size| size.cut(25.0, 700.0),
        extent: |size| Extent { amount: size.cut(10.0, 300.0), unit: "images" },
        measure,
    }),
    claims: &[Claim {
        id: "none-wrong",
        text: "no image of any server is wrong",
        judge: none_is_wrong,
    }],
    ..Figure::BLANK
};

fn measure(size: Size) -> Result<Vec<Panel>> {
    let images = (size.cut(10, 300) / size.shrink).max(2);
    let mut reports = Vec::new();
    for server in SERVERS {
        if let Some(report) = hunted(server, images, 1)? {
            reports.push((server, report));
        }
    }
    let panel = |title: &str, of: &dyn Fn(&stillframe_hunt::Report) -> u64| {
        let rows = reports.iter().enumerate().map(|(index, (server, report))| {
            Series::numbered(index, server, vec![Point::single(0.0, of(report) as f64)])
        });
        Panel::new(title, Kind::Rows, "", &format!("{title}, of {images} images"), rows.collect())
    };
    Ok(vec![
        panel(WRONG, &|report| report.found.iter().map(|found| found.images).sum()),
        panel(MEANWHILE, &|report| report.transactions_during_images),
    ])
}

fn none_is_wrong(data: &Data<'_>) -> Judgement {
    let panels = data.direct();
    let sums = |title: &str| {
        let panels = panels.iter().filter(|panel| panel.title == title);
        let of = |series: &Series| {
            (series.name.clone(), series.points.iter().map(|point| point.y).sum::<f64>())
        };
        panels.flat_map(|panel| &panel.series).map(of).collect::<Vec<_>>()
    };
    let (wrong, meanwhile) = (sums(WRONG), sums(MEANWHILE));
    if wrong.is_empty() || meanwhile.iter().any(|(_, count)| *count == 0.0) {
        return Judgement::untested("no transaction ended while an image was taken");
    }
    let bad: Vec<&str> =
        wrong.iter().filter(|(_, count)| *count > 0.0).map(|(name, _)| &**name).collect();
    let text = if bad.is_empty() {
        let names: Vec<&str> = wrong.iter().map(|(name, _)| &**name).collect();
        format!("none of {}", names.join(", "))
    } else {
        bad.join(", ")
    };
    Judgement::new(bad.is_empty(), text)
}
