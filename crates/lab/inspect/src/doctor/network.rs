//! Network settings: proxies and redirected endpoints. Nothing is contacted.

use serde::Serialize;

use super::{Finding, Level};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;
use convoke_vendor::MeasuredCli;

/// The network settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    pub proxies: Vec<Proxy>,
    /// The hosts that are reached without a proxy.
    pub without_proxy: Option<String>,
    /// The redirected endpoints.
    pub redirects: Vec<Redirect>,
}

/// A proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    pub variable: &'static str,
    /// The address, without credentials.
    pub address: String,
}

/// A redirected endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    pub agent: &'static dyn MeasuredCli,
    pub variable: &'static str,
    /// The address, without credentials.
    pub address: String,
}

const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

pub(super) fn examine(host_environment: &HostEnvironment, findings: &mut Vec<Finding>) -> Network {
    let value = |name: &str| {
        let value = host_environment.variable(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let proxies = PROXIES.into_iter().filter_map(|variable| {
        let address = without_user(&value(variable)?);
        Some(Proxy { variable, address })
    });
    let redirects = convoke_vendors::clis().filter_map(|agent| {
        let variable = agent.facts().address_variable;
        let address = without_user(&value(variable)?);
        Some(Redirect { agent, variable, address })
    });
    let network = Network {
        proxies: proxies.collect(),
        without_proxy: value("NO_PROXY").or_else(|| value("no_proxy")),
        redirects: redirects.collect(),
    };
    check_proxies(&network, findings);
    for redirect in &network.redirects {
        let Redirect { agent, variable, address } = redirect;
        let message = format!("{variable} sends the requests of {agent} to {address}");
        let fix = format!("Unset {variable} if this is not intended.");
        findings
            .push(Finding::new(Level::Note, diagnostics::DOCTOR_REDIRECTED, message).with_fix(fix));
    }
    network
}

fn check_proxies(network: &Network, findings: &mut Vec<Finding>) {
    for pair in PROXIES.chunks(2) {
        let address = |name: &str| {
            let proxy = network.proxies.iter().find(|proxy| proxy.variable == name);
            proxy.map(|proxy| &proxy.address)
        };
        if let (Some(upper), Some(lower)) = (address(pair[0]), address(pair[1]))
            && upper != lower
        {
            let message = format!("{} is {upper} and {} is {lower}", pair[0], pair[1]);
            findings.push(
                Finding::new(Level::Warning, diagnostics::DOCTOR_PROXY, message).with_fix(
                    "Set both to the same address: programs differ in which one they read.",
                ),
            );
        }
    }
    let spared = network.without_proxy.as_deref().unwrap_or_default();
    let is_spared =
        spared.split(',').any(|host| ["127.0.0.1", "localhost", "*"].contains(&host.trim()));
    if !network.proxies.is_empty() && !is_spared {
        let message = "the proxy would be used for addresses on this machine";
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_PROXY, message)
                .with_fix("Add 127.0.0.1,localhost to NO_PROXY."),
        );
    }
}

/// Returns the host of an address, with its port.
pub(super) fn host(address: &str) -> String {
    let address = without_user(address);
    let host = address.split_once("://").map_or(&*address, |(_, rest)| rest);
    host.split('/').next().unwrap_or_default().to_owned()
}

/// Removes credentials from an address.
fn without_user(address: &str) -> String {
    let (scheme, rest) =
        address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = host.rsplit('@').next().unwrap_or(host);
    let path = path.split('?').next().unwrap_or_default();
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (address, shown) in [
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://me:p@ss@proxy:3128/x?key=1", "http://proxy:3128/x"),
            ("me:secret@proxy", "proxy"),
            ("socks5://[::1]:9", "socks5://[::1]:9"),
            ("", ""),
        ] {
            assert_eq!(without_user(address), shown);
        }
    }
}
