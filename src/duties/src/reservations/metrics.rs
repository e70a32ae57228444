//! The gauges of what is allocated, and the counts of the repair of node ports, by kube-apiserver's names. They show the state at the last
//! full pass, at the replica that had it.

use std::net::IpAddr;

use metrics::{Counter, counter, gauge};
use trireme_registry::allocate::{AddressRange, AllocateError, IpFamily, ServiceRanges};

/// The repair of node ports.
pub(super) struct PortMeters {
    failures: Counter,
}

impl PortMeters {
    pub(super) fn new() -> Self {
        let failures = counter!("apiserver_nodeport_repair_reconcile_errors_total");
        failures.increment(0);
        Self { failures }
    }

    /// Counts a pass that ends here with an error.
    pub(super) fn note<T, E>(&self, outcome: Result<T, E>) -> Result<T, E> {
        outcome.inspect_err(|_| self.failures.increment(1))
    }
}

/// Counts the port of a service that was not reserved, by what became of it.
pub(super) fn count_repair(reserved: &Result<(), AllocateError>) {
    match reserved {
        Ok(()) => count_port("repair"),
        Err(AllocateError::PortOutside(_)) => count_port("outOfRange"),
        // The store's failures are those of the pass; a port that is taken by now was just given to its service.
        Err(_) => {}
    }
}

/// Counts a port that no service has.
pub(super) fn count_leak() {
    count_port("leak");
}

fn count_port(kind: &'static str) {
    counter!("apiserver_nodeport_repair_port_errors_total", "type" => kind).increment(1);
}

/// Shows how many ports of a range are held.
pub(super) fn show_ports(held: usize, all: usize) {
    gauge!("kube_apiserver_nodeport_allocator_allocated_ports").set(held as f64);
    gauge!("kube_apiserver_nodeport_allocator_available_ports").set(all.saturating_sub(held) as f64);
}

/// Shows how many addresses of each range are held.
pub(super) fn show_addresses(ranges: &ServiceRanges, held: &[IpAddr]) {
    for range in ranges.families().flat_map(|family| ranges.usable(family)) {
        let cidr = range.to_string();
        let held = held.iter().filter(|address| range.contains(**address)).count() as f64;
        gauge!("kube_apiserver_clusterip_allocator_allocated_ips", "cidr" => cidr.clone()).set(held);
        gauge!("kube_apiserver_clusterip_allocator_available_ips", "cidr" => cidr).set((size(&range) - held).max(0.0));
    }
}

/// The number of addresses that services may have.
fn size(range: &AddressRange) -> f64 {
    let text = range.to_string();
    let prefix = text.rsplit_once('/').and_then(|(_, prefix)| prefix.parse::<i32>().ok());
    let (width, reserved) = match range.family() {
        IpFamily::V4 => (32, 2.0),
        IpFamily::V6 => (128, 1.0),
    };
    2_f64.powi(width - prefix.unwrap_or(width)) - reserved
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn what_is_held_and_what_is_left_is_shown_by_range() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let ranges = ["10.0.0.0/28", "fd00::/112"].map(|range| range.parse().expect("a range"));
        let held = ["10.0.0.1", "10.0.0.2", "10.9.0.1", "fd00::1"].map(|address| address.parse().expect("an address"));
        ::metrics::with_local_recorder(&recorder, || {
            let meters = PortMeters::new();
            assert_eq!(meters.note::<(), _>(Err("the store is gone")), Err("the store is gone"));
            show_addresses(&ServiceRanges::fixed(ranges), &held);
            show_ports(3, 10);
            count_repair(&Ok(()));
            count_repair(&Err(AllocateError::PortOutside("30000-30009".to_owned())));
            count_repair(&Err(AllocateError::PortTaken));
            count_leak();
        });
        let page = recorder.handle().render();
        let mut series: Vec<&str> = page
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        series.sort_unstable();
        assert_eq!(
            series,
            [
                r#"apiserver_nodeport_repair_port_errors_total{type="leak"} 1"#,
                r#"apiserver_nodeport_repair_port_errors_total{type="outOfRange"} 1"#,
                r#"apiserver_nodeport_repair_port_errors_total{type="repair"} 1"#,
                "apiserver_nodeport_repair_reconcile_errors_total 1",
                r#"kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.0.0.0/28"} 2"#,
                r#"kube_apiserver_clusterip_allocator_allocated_ips{cidr="fd00::/112"} 1"#,
                r#"kube_apiserver_clusterip_allocator_available_ips{cidr="10.0.0.0/28"} 12"#,
                r#"kube_apiserver_clusterip_allocator_available_ips{cidr="fd00::/112"} 65534"#,
                "kube_apiserver_nodeport_allocator_allocated_ports 3",
                "kube_apiserver_nodeport_allocator_available_ports 7",
            ]
        );
    }
}
