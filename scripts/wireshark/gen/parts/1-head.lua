-- Ultra Ethernet Transport for Wireshark: every header of UE 1.0.x, and the link trailer and link control frames of uetlab.
--
-- Copyright 2026 The uetlab authors
-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public License
-- as published by the Free Software Foundation; either version 2 of the License, or (at your option) any later version.
--
-- Made by scripts/wireshark/gen from the field tables of the Go codec: change the parts there, then run go generate.

-- A Wireshark that has a UET dissector of its own keeps the name; this one then goes by "uetlab", and so do its fields.
local NAME = "uet"
local free, uet = pcall(Proto, NAME, "Ultra Ethernet Transport")
if not free then
	NAME = "uetlab"
	uet = Proto(NAME, "Ultra Ethernet Transport (uetlab)")
end
local native = Proto(NAME .. "_native", "UET entropy header")
local over_udp = Proto(NAME .. "_udp", "UET over UDP")
local icmp_error = Proto(NAME .. "_quoted", "UET packets quoted by ICMP")
local link = Proto(NAME .. "_link", "uetlab link trailer")
local control = Proto(NAME .. "_control", "uetlab link control")
local lldp = Proto(NAME .. "_lldp", "LLDP TLVs of Ultra Ethernet")
local csig = Proto(NAME .. "_csig", "CSIG tag")

set_plugin_info({ version = "1.0", author = "The uetlab authors", description = uet.description })

uet.prefs.native = Pref.uint("Native IP protocol", 253, "IP protocol number of UET without UDP; 0 for none")
uet.prefs.trimmed = Pref.uint("DSCP of trimmed packets", 34, "put on by a switch when it trims")
uet.prefs.trimmed_lasthop = Pref.uint("DSCP of packets trimmed on the last hop", 36, "the same, at the port to the destination")
uet.prefs.crc = Pref.bool("Check the UET CRC", true, "where a packet may end in one")
link.prefs.trailer = Pref.bool("Look for the link trailer", true, "the last 24 bytes of frames between nodes of a lab")
link.prefs.fcs = Pref.bool("Check the FCS in the link trailer", false, "takes a while on large captures")
