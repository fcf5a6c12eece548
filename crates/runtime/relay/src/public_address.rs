//! Addresses of the public internet, as opposed to those of this machine and its networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is on the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_benchmark = a == 198 && (18..20).contains(&b);
    !(a == 0
        || a >= 240
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark)
}

/// Global unicast addresses, without those that carry an IPv4 address or are examples.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let [first, second, third, fourth, fifth, sixth, high, low] = address.segments();
    // A network without IPv4 reaches it by addresses that end with one.
    if [first, second, third, fourth, fifth, sixth] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    }
    let is_global = (0x2000..0x4000).contains(&first);
    let is_6to4 = first == 0x2002;
    let is_teredo = (first, second) == (0x2001, 0);
    let is_documentation = (first, second) == (0x2001, 0xdb8);
    is_global && !is_6to4 && !is_teredo && !is_documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_networks_are_not_public() {
        let is_public = |text: &str| is_public(text.parse().unwrap());
        for address in [
            "1.1.1.1",
            "160.79.104.10",
            "100.128.0.1",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }
}
