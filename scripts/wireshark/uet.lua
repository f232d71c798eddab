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

-- Tables, made from the Go codec's: do not edit here -------------------------------------------------------------------------

-- TABLE has the headers by name; off and bits are in bits; when lists conditions {off, bits, wanted, values} on the header.
local TABLE = {
	["CSIG tag"] = { len = 4,
		{ name = "csig.t", off = 0, bits = 3, enum = "CSIGType", doc = "what is signalled" },
		{ name = "csig.r", off = 3, bits = 1, doc = "reserved, 0" },
		{ name = "csig.s", off = 4, bits = 5, doc = "signal, quantised" },
		{ name = "csig.lm", off = 9, bits = 6, doc = "locator of the hop that wrote it" },
		{ name = "csig.d", off = 15, bits = 1, doc = "trimmed: later hops leave the signal" },
		{ name = "csig.type", off = 16, bits = 16, enum = "EtherType", doc = "what follows the tag" },
	},
	["wide CSIG tag"] = { len = 8,
		{ name = "csig.lm", off = 0, bits = 15, doc = "locator of the hop that wrote it" },
		{ name = "csig.d", off = 15, bits = 1, doc = "trimmed: later hops leave the signal" },
		{ name = "csig.t", off = 16, bits = 4, enum = "CSIGType", doc = "what is signalled" },
		{ name = "csig.s", off = 20, bits = 20, doc = "signal, quantised" },
		{ name = "csig.r", off = 40, bits = 8, doc = "reserved, 0" },
		{ name = "csig.type", off = 48, bits = 16, enum = "EtherType", doc = "what follows the tag" },
	},
	["TSS"] = { len = 12,
		{ name = "tss.type", off = 0, bits = 5, enum = "PDSType", doc = "1" },
		{ name = "tss.sp", off = 5, bits = 1, doc = "SSI present" },
		{ name = "tss.reserved", off = 6, bits = 1, doc = "reserved, 0" },
		{ name = "tss.an", off = 7, bits = 1, doc = "association number, picks one of two keys" },
		{ name = "tss.sdi", off = 8, bits = 24, doc = "secure domain id" },
		{ name = "tss.ssi", off = 32, bits = 32, when = { { 5, 1, true, { [1] = true } } }, doc = "secure source id" },
		{ name = "tss.epoch", off = 32, bits = 16, when = { { 5, 1, true, { [0] = true } } }, doc = "upper 16 bits of the time stamp counter" },
		{ name = "tss.counter", off = 48, bits = 48, when = { { 5, 1, true, { [0] = true } } }, doc = "lower 48 bits of the time stamp counter" },
		{ name = "tss.epoch", off = 64, bits = 16, when = { { 5, 1, true, { [1] = true } } }, doc = "upper 16 bits of the time stamp counter" },
		{ name = "tss.counter", off = 80, bits = 48, when = { { 5, 1, true, { [1] = true } } }, doc = "lower 48 bits of the time stamp counter" },
	},
	["PDS prologue"] = { len = 2,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, doc = "flags, by type" },
	},
	["RUD/ROD_REQ"] = { len = 12,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "RequestFlags", doc = "flags, by type" },
		{ name = "pds.clear_psn_offset", off = 16, bits = 16, signed = true, doc = "CLEAR_PSN = psn + offset" },
		{ name = "pds.psn", off = 32, bits = 32, doc = "packet sequence number" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "sender's PDC id" },
		{ name = "pds.dpdcid", off = 80, bits = 16, when = { { 13, 1, true, { [0] = true } } }, doc = "receiver's PDC id" },
		{ name = "pds.use_rsv_pdc", off = 80, bits = 1, when = { { 13, 1, true, { [1] = true } } }, doc = "take the PDC from the reserved pool" },
		{ name = "pds.pdc_info", off = 81, bits = 3, when = { { 13, 1, true, { [1] = true } } }, doc = "reserved, 0" },
		{ name = "pds.psn_offset", off = 84, bits = 12, when = { { 13, 1, true, { [1] = true } } }, doc = "Start_PSN = psn - psn_offset" },
	},
	["RUD/ROD_CC_REQ"] = { len = 16,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "RequestFlags", doc = "flags, by type" },
		{ name = "pds.clear_psn_offset", off = 16, bits = 16, signed = true, doc = "CLEAR_PSN = psn + offset" },
		{ name = "pds.psn", off = 32, bits = 32, doc = "packet sequence number" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "sender's PDC id" },
		{ name = "pds.dpdcid", off = 80, bits = 16, when = { { 13, 1, true, { [0] = true } } }, doc = "receiver's PDC id" },
		{ name = "pds.use_rsv_pdc", off = 80, bits = 1, when = { { 13, 1, true, { [1] = true } } }, doc = "take the PDC from the reserved pool" },
		{ name = "pds.pdc_info", off = 81, bits = 3, when = { { 13, 1, true, { [1] = true } } }, doc = "reserved, 0" },
		{ name = "pds.psn_offset", off = 84, bits = 12, when = { { 13, 1, true, { [1] = true } } }, doc = "Start_PSN = psn - psn_offset" },
		{ name = "pds.ccc_id", off = 96, bits = 8, doc = "source's congestion control context" },
		{ name = "pds.credit_target", off = 104, bits = 24, doc = "credit wanted, 256-byte units" },
	},
	["ACK"] = { len = 12,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "AckFlags", doc = "flags, by type" },
		{ name = "pds.ack_psn_offset", off = 16, bits = 16, signed = true, when = { { 12, 1, true, { [0] = true } } }, doc = "ACK_PSN = cack_psn + offset" },
		{ name = "pds.probe_opaque", off = 16, bits = 16, when = { { 12, 1, true, { [1] = true } } }, doc = "copied from the Probe" },
		{ name = "pds.cack_psn", off = 32, bits = 32, doc = "all PSNs up to it are received and cleared" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "PDC id of the ACK's sender" },
		{ name = "pds.dpdcid", off = 80, bits = 16, doc = "PDC id of the ACK's receiver" },
	},
	["ACK_CC"] = { len = 32,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "AckFlags", doc = "flags, by type" },
		{ name = "pds.ack_psn_offset", off = 16, bits = 16, signed = true, when = { { 12, 1, true, { [0] = true } } }, doc = "ACK_PSN = cack_psn + offset" },
		{ name = "pds.probe_opaque", off = 16, bits = 16, when = { { 12, 1, true, { [1] = true } } }, doc = "copied from the Probe" },
		{ name = "pds.cack_psn", off = 32, bits = 32, doc = "all PSNs up to it are received and cleared" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "PDC id of the ACK's sender" },
		{ name = "pds.dpdcid", off = 80, bits = 16, doc = "PDC id of the ACK's receiver" },
		{ name = "pds.cc_type", off = 96, bits = 4, enum = "CCType", doc = "format of ack_cc_state" },
		{ name = "pds.cc_flags", off = 100, bits = 4, doc = "reserved" },
		{ name = "pds.mpr", off = 104, bits = 8, doc = "MP_Range in units of 128 PSNs" },
		{ name = "pds.sack_psn_offset", off = 112, bits = 16, signed = true, doc = "SACK base = cack_psn + offset" },
		{ name = "pds.sack_bitmap", off = 128, bits = 64, doc = "bit i (0 = least significant): base + i is received" },
		{ name = "pds.service_time", off = 192, bits = 16, when = { { 96, 4, true, { [0] = true } } }, doc = "128 ns units from arrival to ACK" },
		{ name = "pds.rc", off = 208, bits = 1, when = { { 96, 4, true, { [0] = true } } }, doc = "restore cwnd" },
		{ name = "pds.rcv_cwnd_pend", off = 209, bits = 7, when = { { 96, 4, true, { [0] = true } } }, doc = "receiver penalty" },
		{ name = "pds.rcvd_bytes", off = 216, bits = 24, when = { { 96, 4, true, { [0] = true } } }, doc = "cumulative, 256-byte units" },
		{ name = "pds.credit", off = 192, bits = 24, when = { { 96, 4, true, { [1] = true } } }, doc = "cumulative credit, 256-byte units" },
		{ name = "pds.reserved", off = 216, bits = 24, when = { { 96, 4, true, { [1] = true } } }, doc = "reserved, 0" },
		{ name = "pds.ooo_count", off = 240, bits = 16, when = { { 96, 4, true, { [0] = true, [1] = true } } }, doc = "packets out of order, 0xFFFF = not computed" },
		{ name = "pds.ack_cc_state", off = 192, bits = 64, when = { { 96, 4, false, { [0] = true, [1] = true } } }, doc = "by cc_type" },
	},
	["ACK_CCX"] = { len = 40,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "AckFlags", doc = "flags, by type" },
		{ name = "pds.ack_psn_offset", off = 16, bits = 16, signed = true, when = { { 12, 1, true, { [0] = true } } }, doc = "ACK_PSN = cack_psn + offset" },
		{ name = "pds.probe_opaque", off = 16, bits = 16, when = { { 12, 1, true, { [1] = true } } }, doc = "copied from the Probe" },
		{ name = "pds.cack_psn", off = 32, bits = 32, doc = "all PSNs up to it are received and cleared" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "PDC id of the ACK's sender" },
		{ name = "pds.dpdcid", off = 80, bits = 16, doc = "PDC id of the ACK's receiver" },
		{ name = "pds.cc_type", off = 96, bits = 4, enum = "CCType", doc = "format of ack_cc_state" },
		{ name = "pds.cc_flags", off = 100, bits = 4, doc = "reserved" },
		{ name = "pds.mpr", off = 104, bits = 8, doc = "MP_Range in units of 128 PSNs" },
		{ name = "pds.sack_psn_offset", off = 112, bits = 16, signed = true, doc = "SACK base = cack_psn + offset" },
		{ name = "pds.sack_bitmap", off = 128, bits = 64, doc = "bit i (0 = least significant): base + i is received" },
		{ name = "pds.service_time", off = 192, bits = 16, when = { { 96, 4, true, { [0] = true } } }, doc = "128 ns units from arrival to ACK" },
		{ name = "pds.rc", off = 208, bits = 1, when = { { 96, 4, true, { [0] = true } } }, doc = "restore cwnd" },
		{ name = "pds.rcv_cwnd_pend", off = 209, bits = 7, when = { { 96, 4, true, { [0] = true } } }, doc = "receiver penalty" },
		{ name = "pds.rcvd_bytes", off = 216, bits = 24, when = { { 96, 4, true, { [0] = true } } }, doc = "cumulative, 256-byte units" },
		{ name = "pds.credit", off = 192, bits = 24, when = { { 96, 4, true, { [1] = true } } }, doc = "cumulative credit, 256-byte units" },
		{ name = "pds.reserved", off = 216, bits = 24, when = { { 96, 4, true, { [1] = true } } }, doc = "reserved, 0" },
		{ name = "pds.ooo_count", off = 240, bits = 16, when = { { 96, 4, true, { [0] = true, [1] = true } } }, doc = "packets out of order, 0xFFFF = not computed" },
		{ name = "pds.ack_cc_state", off = 192, bits = 64, when = { { 96, 4, false, { [0] = true, [1] = true } } }, doc = "by cc_type" },
		{ name = "pds.ack_ccx_state", off = 256, bits = 64, doc = "by ccx_type" },
	},
	["NACK"] = { len = 16,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "NackFlags", doc = "flags, by type" },
		{ name = "pds.nack_code", off = 16, bits = 8, enum = "NackCode", doc = "why the packet was refused" },
		{ name = "pds.vendor_code", off = 24, bits = 8, doc = "0 if unused" },
		{ name = "pds.nack_psn", off = 32, bits = 32, when = { { 12, 1, true, { [0] = true } } }, doc = "PSN refused" },
		{ name = "pds.nack_pkt_id", off = 32, bits = 32, when = { { 12, 1, true, { [1] = true } } }, doc = "RUDI packet refused" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "PDC id of the NACK's sender, 0 if it has none" },
		{ name = "pds.dpdcid", off = 80, bits = 16, doc = "PDC id of the NACK's receiver" },
		{ name = "pds.payload", off = 96, bits = 32, doc = "by nack_code" },
	},
	["NACK_CCX"] = { len = 32,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "NackFlags", doc = "flags, by type" },
		{ name = "pds.nack_code", off = 16, bits = 8, enum = "NackCode", doc = "why the packet was refused" },
		{ name = "pds.vendor_code", off = 24, bits = 8, doc = "0 if unused" },
		{ name = "pds.nack_psn", off = 32, bits = 32, when = { { 12, 1, true, { [0] = true } } }, doc = "PSN refused" },
		{ name = "pds.nack_pkt_id", off = 32, bits = 32, when = { { 12, 1, true, { [1] = true } } }, doc = "RUDI packet refused" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "PDC id of the NACK's sender, 0 if it has none" },
		{ name = "pds.dpdcid", off = 80, bits = 16, doc = "PDC id of the NACK's receiver" },
		{ name = "pds.payload", off = 96, bits = 32, doc = "by nack_code" },
		{ name = "pds.nccx_type", off = 128, bits = 4, doc = "14 and 15 are proprietary" },
		{ name = "pds.nack_ccx_state1", off = 132, bits = 60, doc = "by nccx_type" },
		{ name = "pds.nack_ccx_state2", off = 192, bits = 64, doc = "by nccx_type" },
	},
	["CTRL"] = { len = 12,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.ctl_type", off = 5, bits = 4, enum = "CtlType", doc = "kind of control packet" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "CtrlFlags", doc = "flags" },
		{ name = "pds.probe_opaque", off = 16, bits = 16, doc = "echoed in the ACK of a PROBE" },
		{ name = "pds.psn", off = 32, bits = 32, doc = "packet sequence number" },
		{ name = "pds.spdcid", off = 64, bits = 16, doc = "sender's PDC id" },
		{ name = "pds.dpdcid", off = 80, bits = 16, when = { { 13, 1, true, { [0] = true } } }, doc = "receiver's PDC id" },
		{ name = "pds.use_rsv_pdc", off = 80, bits = 1, when = { { 13, 1, true, { [1] = true } } }, doc = "take the PDC from the reserved pool" },
		{ name = "pds.pdc_info", off = 81, bits = 3, when = { { 13, 1, true, { [1] = true } } }, doc = "reserved, 0" },
		{ name = "pds.psn_offset", off = 84, bits = 12, when = { { 13, 1, true, { [1] = true } } }, doc = "Start_PSN = psn - psn_offset" },
		{ name = "pds.payload", off = 96, bits = 32, when = { { 5, 4, false, { [9] = true } } }, doc = "by ctl_type: message ID, PSN, SACK base, credit" },
		{ name = "pds.neg_type", off = 96, bits = 8, when = { { 5, 4, true, { [9] = true } } }, doc = "1 = PDS_NEG_ON_OFF" },
		{ name = "pds.neg_length", off = 104, bits = 8, when = { { 5, 4, true, { [9] = true } } }, doc = "length of the TLV in 32-bit words" },
		{ name = "pds.reserved", off = 112, bits = 16, when = { { 5, 4, true, { [9] = true } } }, doc = "reserved, 0" },
		{ name = "pds.feature_mask", off = 128, bits = 32, when = { { 5, 4, true, { [9] = true } } }, doc = "bit 0 SYN_RETX_TRANSFER" },
	},
	["RUDI_REQ/RESP"] = { len = 8,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, flags = "RUDIFlags", doc = "flags, by type" },
		{ name = "pds.reserved", off = 16, bits = 16, doc = "reserved, 0" },
		{ name = "pds.pkt_id", off = 32, bits = 32, doc = "chosen by the initiator, echoed in the answer" },
	},
	["UUD_REQ"] = { len = 4,
		{ name = "pds.type", off = 0, bits = 5, enum = "PDSType", doc = "PDS type" },
		{ name = "pds.next_hdr", off = 5, bits = 4, enum = "NextHdr", doc = "SES header that follows" },
		{ name = "pds.flags", off = 9, bits = 7, doc = "flags, by type" },
		{ name = "pds.reserved", off = 16, bits = 16, doc = "reserved, 0" },
	},
	["REQUEST_SMALL"] = { len = 20,
		{ name = "ses.reserved", off = 0, bits = 2, doc = "reserved, 0" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "Opcode", doc = "operation" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.dc", off = 10, bits = 1, doc = "delivery complete" },
		{ name = "ses.ie", off = 11, bits = 1, doc = "initiator error" },
		{ name = "ses.rel", off = 12, bits = 1, doc = "relative addressing" },
		{ name = "ses.reserved", off = 13, bits = 1, doc = "reserved, 0" },
		{ name = "ses.eom", off = 14, bits = 1, doc = "last packet of the message" },
		{ name = "ses.som", off = 15, bits = 1, doc = "first packet of the message" },
		{ name = "ses.reserved", off = 16, bits = 2, doc = "reserved, 0" },
		{ name = "ses.request_length", off = 18, bits = 14, doc = "bytes of the message" },
		{ name = "ses.ri_generation", off = 32, bits = 8, doc = "generation of the resource index" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.reserved", off = 64, bits = 4, doc = "reserved, 0" },
		{ name = "ses.pid_on_fep", off = 68, bits = 12, doc = "target process" },
		{ name = "ses.reserved", off = 80, bits = 4, doc = "reserved, 0" },
		{ name = "ses.resource_index", off = 84, bits = 12, doc = "resource index" },
		{ name = "ses.buffer_offset", off = 96, bits = 64, doc = "offset in the target's buffer" },
	},
	["REQUEST_MEDIUM"] = { len = 32,
		{ name = "ses.reserved", off = 0, bits = 2, doc = "reserved, 0" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "Opcode", doc = "operation" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.dc", off = 10, bits = 1, doc = "delivery complete" },
		{ name = "ses.ie", off = 11, bits = 1, doc = "initiator error" },
		{ name = "ses.rel", off = 12, bits = 1, doc = "relative addressing" },
		{ name = "ses.hd", off = 13, bits = 1, doc = "header_data is valid" },
		{ name = "ses.eom", off = 14, bits = 1, doc = "last packet of the message" },
		{ name = "ses.som", off = 15, bits = 1, doc = "first packet of the message" },
		{ name = "ses.reserved", off = 16, bits = 2, doc = "reserved, 0" },
		{ name = "ses.request_length", off = 18, bits = 14, doc = "bytes of the message" },
		{ name = "ses.ri_generation", off = 32, bits = 8, doc = "generation of the resource index" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.reserved", off = 64, bits = 4, doc = "reserved, 0" },
		{ name = "ses.pid_on_fep", off = 68, bits = 12, doc = "target process" },
		{ name = "ses.reserved", off = 80, bits = 4, doc = "reserved, 0" },
		{ name = "ses.resource_index", off = 84, bits = 12, doc = "resource index" },
		{ name = "ses.header_data", off = 96, bits = 64, when = { { 13, 1, true, { [1] = true } } }, doc = "completion data" },
		{ name = "ses.buffer_offset", off = 96, bits = 64, when = { { 13, 1, true, { [0] = true } } }, doc = "offset in the target's buffer" },
		{ name = "ses.initiator", off = 160, bits = 32, doc = "id used for matching" },
		{ name = "ses.match_bits", off = 192, bits = 64, doc = "match_bits (tagged) or memory_key (RMA)" },
	},
	["REQUEST_STD"] = { len = 44,
		{ name = "ses.reserved", off = 0, bits = 2, doc = "reserved, 0" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "Opcode", doc = "operation" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.dc", off = 10, bits = 1, doc = "delivery complete" },
		{ name = "ses.ie", off = 11, bits = 1, doc = "initiator error" },
		{ name = "ses.rel", off = 12, bits = 1, doc = "relative addressing" },
		{ name = "ses.hd", off = 13, bits = 1, doc = "header_data is valid" },
		{ name = "ses.eom", off = 14, bits = 1, doc = "last packet of the message" },
		{ name = "ses.som", off = 15, bits = 1, doc = "first packet of the message" },
		{ name = "ses.message_id", off = 16, bits = 16, doc = "number of the message" },
		{ name = "ses.ri_generation", off = 32, bits = 8, doc = "generation of the resource index" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.reserved", off = 64, bits = 4, doc = "reserved, 0" },
		{ name = "ses.pid_on_fep", off = 68, bits = 12, doc = "target process" },
		{ name = "ses.reserved", off = 80, bits = 4, doc = "reserved, 0" },
		{ name = "ses.resource_index", off = 84, bits = 12, doc = "resource index" },
		{ name = "ses.ini_restart_token", off = 96, bits = 32, when = { { 2, 6, true, { [8] = true, [11] = true } } }, doc = "initiator's restart token" },
		{ name = "ses.tgt_restart_token", off = 128, bits = 32, when = { { 2, 6, true, { [8] = true, [11] = true } } }, doc = "target's restart token, 0 on the first try" },
		{ name = "ses.buffer_offset", off = 96, bits = 64, when = { { 2, 6, false, { [8] = true, [11] = true } } }, doc = "offset in the target's buffer" },
		{ name = "ses.initiator", off = 160, bits = 32, doc = "id used for matching" },
		{ name = "ses.ini_restart_token", off = 192, bits = 32, when = { { 2, 6, true, { [12] = true } } }, doc = "initiator's restart token" },
		{ name = "ses.tgt_restart_token", off = 224, bits = 32, when = { { 2, 6, true, { [12] = true } } }, doc = "target's restart token, 0 on the first try" },
		{ name = "ses.match_bits", off = 192, bits = 64, when = { { 2, 6, false, { [12] = true } } }, doc = "match_bits (tagged) or memory_key (RMA)" },
		{ name = "ses.header_data", off = 256, bits = 64, when = { { 15, 1, true, { [1] = true } } }, doc = "completion data" },
		{ name = "ses.reserved", off = 256, bits = 18, when = { { 15, 1, true, { [0] = true } } }, doc = "reserved, 0" },
		{ name = "ses.payload_length", off = 274, bits = 14, when = { { 15, 1, true, { [0] = true } } }, doc = "bytes in this packet" },
		{ name = "ses.message_offset", off = 288, bits = 32, when = { { 15, 1, true, { [0] = true } } }, doc = "where this packet's first byte lies in the message" },
		{ name = "ses.request_length", off = 320, bits = 32, doc = "bytes of the whole message" },
	},
	["RESPONSE"] = { len = 12,
		{ name = "ses.list", off = 0, bits = 2, enum = "List", doc = "where the message was placed" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "RespOpcode", doc = "kind of response" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.return_code", off = 10, bits = 6, enum = "ReturnCode", doc = "result" },
		{ name = "ses.message_id", off = 16, bits = 16, doc = "of the request" },
		{ name = "ses.ri_generation", off = 32, bits = 8, doc = "generation of the resource index" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.modified_length", off = 64, bits = 32, doc = "bytes written" },
	},
	["RESPONSE_DATA"] = { len = 20,
		{ name = "ses.list", off = 0, bits = 2, enum = "List", doc = "where the message was placed" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "RespOpcode", doc = "kind of response" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.return_code", off = 10, bits = 6, enum = "ReturnCode", doc = "result" },
		{ name = "ses.response_message_id", off = 16, bits = 16, doc = "target's own, or 0" },
		{ name = "ses.reserved", off = 32, bits = 8, doc = "reserved, 0" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.read_request_message_id", off = 64, bits = 16, doc = "message_id of the request" },
		{ name = "ses.reserved", off = 80, bits = 2, doc = "reserved, 0" },
		{ name = "ses.payload_length", off = 82, bits = 14, doc = "bytes in this packet" },
		{ name = "ses.modified_length", off = 96, bits = 32, doc = "bytes in all" },
		{ name = "ses.message_offset", off = 128, bits = 32, doc = "where this packet's first byte lies in the message" },
	},
	["RESPONSE_DATA_SMALL"] = { len = 12,
		{ name = "ses.list", off = 0, bits = 2, enum = "List", doc = "where the message was placed" },
		{ name = "ses.opcode", off = 2, bits = 6, enum = "RespOpcode", doc = "kind of response" },
		{ name = "ses.ver", off = 8, bits = 2, doc = "version, 0" },
		{ name = "ses.return_code", off = 10, bits = 6, enum = "ReturnCode", doc = "result" },
		{ name = "ses.reserved", off = 16, bits = 2, doc = "reserved, 0" },
		{ name = "ses.payload_length", off = 18, bits = 14, doc = "bytes in this packet" },
		{ name = "ses.reserved", off = 32, bits = 8, doc = "reserved, 0" },
		{ name = "ses.job_id", off = 40, bits = 24, doc = "job" },
		{ name = "ses.original_request_psn", off = 64, bits = 32, doc = "PSN of the request, which has no message ID" },
	},
	["rendezvous extension"] = { len = 24,
		{ name = "ext.eager_length", off = 0, bits = 32, doc = "payload bytes of the eager part" },
		{ name = "ext.read_ri_generation", off = 32, bits = 8, doc = "generation of the resource index to read" },
		{ name = "ext.read_pid_on_fep", off = 40, bits = 12, doc = "process to read from" },
		{ name = "ext.read_resource_index", off = 52, bits = 12, doc = "resource index to read" },
		{ name = "ext.read_offset", off = 64, bits = 64, doc = "offset to read from" },
		{ name = "ext.read_match_bits", off = 128, bits = 64, doc = "match bits or memory key to read" },
	},
	["atomic extension"] = { len = 4,
		{ name = "ext.amo_opcode", off = 0, bits = 8, enum = "AtomicOp", doc = "atomic operation" },
		{ name = "ext.amo_datatype", off = 8, bits = 8, enum = "AtomicType", doc = "datatype" },
		{ name = "ext.sem_ctl", off = 16, bits = 8, flags = "SemCtl", doc = "semantic control" },
		{ name = "ext.reserved", off = 24, bits = 8, doc = "reserved, 0" },
		{ name = "ext.compare_value", off = 32, bits = 128, bytes = true, when = { { 0, 8, true, { [13] = true, [14] = true, [15] = true, [16] = true, [17] = true, [18] = true } } }, doc = "narrower types in the last octets" },
		{ name = "ext.swap_value", off = 160, bits = 128, bytes = true, when = { { 0, 8, true, { [13] = true, [14] = true, [15] = true, [16] = true, [17] = true, [18] = true } } }, doc = "narrower types in the last octets" },
	},
	["link trailer"] = { len = 24,
		{ name = "trailer.magic", off = 0, bits = 32, doc = "0x55454c31, UEL1" },
		{ name = "trailer.due", off = 32, bits = 64, signed = true, doc = "virtual ns at which the last bit has arrived" },
		{ name = "trailer.llr", off = 96, bits = 32, doc = "LLR word" },
		{ name = "trailer.llr_kind", off = 96, bits = 4, enum = "LLRKind", doc = "LLR-eligible or not; NO_FCS: plain, without FCS" },
		{ name = "trailer.llr_flags", off = 100, bits = 8, doc = "flags of the LLR word" },
		{ name = "trailer.llr_seq", off = 108, bits = 20, doc = "LLR sequence number" },
		{ name = "trailer.crc", off = 128, bits = 32, doc = "CRC-32C of the 16 bytes before" },
		{ name = "trailer.fcs", off = 160, bits = 32, little = true, doc = "CRC-32 of the frame before the trailer; 0 with NO_FCS" },
	},
	["ordered set"] = { len = 8,
		{ name = "ctlos.lane0", off = 0, bits = 8, doc = "0x5c" },
		{ name = "ctlos.type", off = 8, bits = 8, enum = "CtlOSType", doc = "kind of ordered set" },
		{ name = "ctlos.ocode", off = 36, bits = 4, doc = "6" },
	},
	["LLR_ACK/NACK"] = { len = 8,
		{ name = "ctlos.lane0", off = 0, bits = 8, doc = "0x5c" },
		{ name = "ctlos.type", off = 8, bits = 8, enum = "CtlOSType", doc = "kind of ordered set" },
		{ name = "ctlos.seq", off = 16, bits = 20, doc = "LLR sequence number" },
		{ name = "ctlos.ocode", off = 36, bits = 4, doc = "6" },
	},
	["LLR_INIT/INIT_ECHO"] = { len = 8,
		{ name = "ctlos.lane0", off = 0, bits = 8, doc = "0x5c" },
		{ name = "ctlos.type", off = 8, bits = 8, enum = "CtlOSType", doc = "kind of ordered set" },
		{ name = "ctlos.init_seq", off = 16, bits = 20, doc = "number of the next eligible frame" },
		{ name = "ctlos.init_data", off = 40, bits = 16, little = true, doc = "nonce, which the echo returns" },
		{ name = "ctlos.reserved", off = 56, bits = 8, doc = "reserved, 0" },
		{ name = "ctlos.ocode", off = 36, bits = 4, doc = "6" },
	},
	["CF_Update"] = { len = 8,
		{ name = "ctlos.lane0", off = 0, bits = 8, doc = "0x5c" },
		{ name = "ctlos.type", off = 8, bits = 8, enum = "CtlOSType", doc = "kind of ordered set" },
		{ name = "ctlos.vc1", off = 16, bits = 5, doc = "virtual channel" },
		{ name = "ctlos.count1", off = 21, bits = 15, doc = "low 15 bits of the credits freed" },
		{ name = "ctlos.vc2", off = 40, bits = 5, doc = "virtual channel" },
		{ name = "ctlos.count2", off = 45, bits = 15, doc = "low 15 bits of the credits freed" },
		{ name = "ctlos.reserved", off = 60, bits = 4, doc = "reserved, 0" },
		{ name = "ctlos.ocode", off = 36, bits = 4, doc = "6" },
	},
	["CC_Update"] = { len = 46,
		{ name = "mac.opcode", off = 0, bits = 16, doc = "0xfffe, MAC control extension" },
		{ name = "cc.cid", off = 16, bits = 24, doc = "company ID, fa-7a-cb for UEC" },
		{ name = "cc.type", off = 40, bits = 8, doc = "1 = VC 0..15, 2 = VC 16..31" },
		{ name = "cc.count0", off = 48, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count1", off = 68, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count2", off = 88, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count3", off = 108, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count4", off = 128, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count5", off = 148, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count6", off = 168, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count7", off = 188, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count8", off = 208, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count9", off = 228, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count10", off = 248, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count11", off = 268, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count12", off = 288, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count13", off = 308, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count14", off = 328, bits = 20, doc = "credits consumed, 20 bits" },
		{ name = "cc.count15", off = 348, bits = 20, doc = "credits consumed, 20 bits" },
	},
	["UE link options"] = { len = 14,
		{ name = "lldp.type", off = 0, bits = 7, enum = "LLDPType", doc = "kind of TLV" },
		{ name = "lldp.length", off = 7, bits = 9, doc = "octets behind the two of the TLV header" },
		{ name = "lldp.oui", off = 16, bits = 24, doc = "organisation, fa-7a-cb for UEC" },
		{ name = "lldp.subtype", off = 40, bits = 8, doc = "the organisation's number of the TLV" },
		{ name = "lldp.llr_wanted", off = 48, bits = 2, enum = "LinkWish", doc = "LLR wanted" },
		{ name = "lldp.llr_enabled", off = 50, bits = 2, enum = "LinkWish", doc = "LLR enabled" },
		{ name = "lldp.cbfc_wanted", off = 52, bits = 2, enum = "LinkWish", doc = "CBFC wanted" },
		{ name = "lldp.cbfc_enabled", off = 54, bits = 2, enum = "LinkWish", doc = "CBFC enabled" },
		{ name = "lldp.spec_version", off = 56, bits = 8, doc = "0x13 = 1.0.3" },
		{ name = "lldp.echo", off = 64, bits = 8, doc = "answers the neighbour's boot ID and life" },
		{ name = "lldp.life", off = 72, bits = 6, doc = "changes when the sender has given up credits" },
		{ name = "lldp.lab_flags", off = 78, bits = 2, flags = "LabFlags", doc = "what the lab needs to know" },
		{ name = "lldp.boot_id", off = 80, bits = 32, doc = "changes when the node starts again" },
	},
	["UE CBFC receiver"] = { len = 19,
		{ name = "lldp.type", off = 0, bits = 7, enum = "LLDPType", doc = "kind of TLV" },
		{ name = "lldp.length", off = 7, bits = 9, doc = "octets behind the two of the TLV header" },
		{ name = "lldp.oui", off = 16, bits = 24, doc = "organisation, fa-7a-cb for UEC" },
		{ name = "lldp.subtype", off = 40, bits = 8, doc = "the organisation's number of the TLV" },
		{ name = "lldp.credit_size", off = 48, bits = 16, doc = "octets a credit stands for" },
		{ name = "lldp.pkt_ovhd", off = 64, bits = 8, signed = true, doc = "octets added to each packet" },
		{ name = "lldp.method", off = 72, bits = 8, enum = "CBFCMethod", doc = "how credits are limited" },
		{ name = "lldp.total", off = 80, bits = 32, doc = "credits in all" },
		{ name = "lldp.num_vc", off = 112, bits = 8, doc = "entries that follow" },
		{ name = "lldp.lossless", off = 120, bits = 32, doc = "bit i: VC i is lossless" },
	},
	["UE CBFC VC"] = { len = 7,
		{ name = "vc.index", off = 0, bits = 8, doc = "virtual channel" },
		{ name = "vc.limit", off = 8, bits = 24, doc = "credits" },
		{ name = "vc.map_kind", off = 32, bits = 8, enum = "VCMap", doc = "what selects the channel" },
		{ name = "vc.value", off = 40, bits = 8, doc = "value to match" },
		{ name = "vc.mask", off = 48, bits = 8, doc = "bits that count" },
	},
}

-- BY names the header of a code point, by layer.
local BY = {
	tss = { [1] = "TSS" },
	pds = { [2] = "RUD/ROD_REQ", [3] = "RUD/ROD_REQ", [13] = "RUD/ROD_CC_REQ", [14] = "RUD/ROD_CC_REQ", [7] = "ACK", [8] = "ACK_CC", [9] = "ACK_CCX", [10] = "NACK", [12] = "NACK_CCX", [11] = "CTRL", [4] = "RUDI_REQ/RESP", [5] = "RUDI_REQ/RESP", [6] = "UUD_REQ" },
	ses = { [1] = "REQUEST_SMALL", [2] = "REQUEST_MEDIUM", [3] = "REQUEST_STD", [4] = "RESPONSE", [5] = "RESPONSE_DATA", [6] = "RESPONSE_DATA_SMALL" },
	ext = { [6] = "rendezvous extension", [10] = "rendezvous extension", [3] = "atomic extension", [4] = "atomic extension", [13] = "atomic extension", [14] = "atomic extension" },
	csig = { [52445] = "CSIG tag", [52446] = "wide CSIG tag" },
	ctlos = { [1] = "LLR_ACK/NACK", [2] = "LLR_ACK/NACK", [3] = "LLR_INIT/INIT_ECHO", [4] = "LLR_INIT/INIT_ECHO", [16] = "CF_Update" },
	mac_control = { [65534] = "CC_Update" },
	lldp_ue = { [1] = "UE link options", [2] = "UE CBFC receiver" },
}

-- ENUM has the names of code points, or the masks of flags.
local ENUM = {
	AckFlags = { [64] = "EPSN", [32] = "M", [16] = "RETX", [8] = "P", [6] = "REQ" },
	AtomicOp = { [0] = "MIN", [1] = "MAX", [2] = "SUM", [3] = "DIFF", [4] = "PROD", [5] = "LOR", [6] = "LAND", [7] = "BOR", [8] = "BAND", [9] = "LXOR", [10] = "BXOR", [11] = "READ", [12] = "WRITE", [13] = "CSWAP", [14] = "CSWAP_NE", [15] = "CSWAP_LE", [16] = "CSWAP_LT", [17] = "CSWAP_GE", [18] = "CSWAP_GT", [19] = "MSWAP", [20] = "INVAL" },
	AtomicType = { [0] = "INT8", [1] = "UINT8", [2] = "INT16", [3] = "UINT16", [4] = "INT32", [5] = "UINT32", [6] = "INT64", [7] = "UINT64", [8] = "INT128", [9] = "UINT128", [10] = "FLOAT", [11] = "DOUBLE", [12] = "FLOAT_COMPLEX", [13] = "DOUBLE_COMPLEX", [14] = "LONG_DOUBLE", [15] = "LONG_DOUBLE_COMPLEX", [16] = "BF16", [17] = "FP16" },
	CBFCMethod = { [0] = "TOTAL", [1] = "PER_VC" },
	CCType = { [0] = "NSCC", [1] = "CREDIT", [14] = "PROPRIETARY_14", [15] = "PROPRIETARY_15" },
	CSIGType = { [0] = "ABW", [1] = "ABW/C", [2] = "HOP_DELAY", [3] = "NQD" },
	CtlOSType = { [1] = "LLR_ACK", [2] = "LLR_NACK", [3] = "LLR_INIT", [4] = "LLR_INIT_ECHO", [16] = "CF_Update" },
	CtlType = { [0] = "NOOP", [1] = "ACK_REQUEST", [2] = "CLEAR_COMMAND", [3] = "CLEAR_REQUEST", [4] = "CLOSE_COMMAND", [5] = "CLOSE_REQUEST", [6] = "PROBE", [7] = "CREDIT", [8] = "CREDIT_REQUEST", [9] = "NEGOTIATION" },
	CtrlFlags = { [32] = "ISROD", [16] = "RETX", [8] = "AR", [4] = "SYN" },
	EtherType = { [2048] = "IPv4", [2054] = "ARP", [33024] = "802.1Q", [34525] = "IPv6", [34824] = "MAC_CONTROL", [34984] = "802.1ad", [34997] = "LINK_CONTROL", [35020] = "LLDP", [52445] = "CSIG", [52446] = "CSIG_WIDE" },
	LLDPType = { [0] = "End", [1] = "Chassis ID", [2] = "Port ID", [3] = "Time To Live", [4] = "Port Description", [5] = "System Name", [6] = "System Description", [7] = "System Capabilities", [8] = "Management Address", [127] = "Organizationally Specific" },
	LLRKind = { [0] = "PLAIN", [1] = "ELIGIBLE", [2] = "NO_FCS" },
	LabFlags = { [1] = "TRAILER", [2] = "CBFC_READY" },
	LinkWish = { [0] = "NO", [3] = "BIDIRECTIONAL" },
	List = { [0] = "EXPECTED", [1] = "OVERFLOW", [2] = "VENDOR_2", [3] = "VENDOR_3" },
	NackCode = { [1] = "TRIMMED", [2] = "TRIMMED_LASTHOP", [3] = "TRIMMED_ACK", [4] = "NO_PDC_AVAIL", [5] = "NO_CCC_AVAIL", [6] = "NO_BITMAP", [7] = "NO_PKT_BUFFER", [8] = "NO_GTD_DEL_AVAIL", [9] = "NO_SES_MSG_AVAIL", [10] = "NO_RESOURCE", [11] = "PSN_OOR_WINDOW", [13] = "ROD_OOO", [14] = "INV_DPDCID", [15] = "PDC_HDR_MISMATCH", [16] = "CLOSING", [17] = "CLOSING_IN_ERR", [18] = "PKT_NOT_RCVD", [19] = "GTD_RESP_UNAVAIL", [20] = "ACK_WITH_DATA", [21] = "INVALID_SYN", [22] = "PDC_MODE_MISMATCH", [23] = "NEW_START_PSN", [24] = "RCVD_SES_PROCG", [25] = "UNEXP_EVENT", [26] = "RCVR_INFER_LOSS", [253] = "EXP_NACK_NORMAL", [254] = "EXP_NACK_ERR", [255] = "EXP_NACK_FATAL" },
	NackFlags = { [32] = "M", [16] = "RETX", [8] = "NT" },
	NextHdr = { [0] = "NONE", [1] = "REQUEST_SMALL", [2] = "REQUEST_MEDIUM", [3] = "REQUEST_STD", [4] = "RESPONSE", [5] = "RESPONSE_DATA", [6] = "RESPONSE_DATA_SMALL" },
	Opcode = { [0] = "NO_OP", [1] = "WRITE", [2] = "READ", [3] = "ATOMIC", [4] = "FETCHING_ATOMIC", [5] = "SEND", [6] = "RENDEZVOUS_SEND", [7] = "DATAGRAM_SEND", [8] = "DEFERRABLE_SEND", [9] = "TAGGED_SEND", [10] = "RENDEZVOUS_TSEND", [11] = "DEFERRABLE_TSEND", [12] = "DEFERRABLE_RTR", [13] = "TSEND_ATOMIC", [14] = "TSEND_FETCH_ATOMIC", [15] = "MSG_ERROR" },
	PDSType = { [1] = "TSS", [2] = "RUD_REQ", [3] = "ROD_REQ", [4] = "RUDI_REQ", [5] = "RUDI_RESP", [6] = "UUD_REQ", [7] = "ACK", [8] = "ACK_CC", [9] = "ACK_CCX", [10] = "NACK", [11] = "CTRL", [12] = "NACK_CCX", [13] = "RUD_CC_REQ", [14] = "ROD_CC_REQ" },
	RUDIFlags = { [32] = "M", [16] = "RETX" },
	RequestFlags = { [16] = "RETX", [8] = "AR", [4] = "SYN" },
	RespOpcode = { [0] = "DEFAULT_RESPONSE", [1] = "RESPONSE", [2] = "RESPONSE_W_DATA", [3] = "NO_RESPONSE" },
	ReturnCode = { [0] = "NULL", [1] = "OK", [2] = "BAD_GENERATION", [3] = "DISABLED", [4] = "DISABLED_GEN", [5] = "NO_MATCH", [6] = "UNSUPPORTED_OP", [7] = "UNSUPPORTED_SIZE", [8] = "AT_INVALID", [9] = "AT_PERM", [10] = "AT_ATS_ERROR", [11] = "AT_NO_TRANS", [12] = "AT_OUT_OF_RANGE", [13] = "HOST_POISONED", [14] = "HOST_UNSUCCESS_CMPL", [15] = "AMO_UNSUPPORTED_OP", [16] = "AMO_UNSUPPORTED_DT", [17] = "AMO_UNSUPPORTED_SIZE", [18] = "AMO_UNALIGNED", [19] = "AMO_FP_NAN", [20] = "AMO_FP_UNDERFLOW", [21] = "AMO_FP_OVERFLOW", [22] = "AMO_FP_INEXACT", [23] = "PERM_VIOLATION", [24] = "OP_VIOLATION", [25] = "BAD_INDEX", [26] = "BAD_PID", [27] = "BAD_JOB_ID", [28] = "BAD_MKEY", [29] = "BAD_ADDR", [30] = "CANCELLED", [31] = "UNDELIVERABLE", [32] = "UNCOR", [33] = "UNCOR_TRNSNT", [34] = "TOO_LONG", [35] = "INITIATOR_ERROR", [36] = "DROPPED", [62] = "EXTENDED" },
	SemCtl = { [1] = "CACHEABLE", [2] = "CPU_COHERENT" },
	VCMap = { [0] = "DSCP", [1] = "PCP" },
}

-- Fields ---------------------------------------------------------------------------------------------------------------------

local F = {} -- by name without the prefix

local function field(name, make, label, ...)
	F[name] = make(NAME .. "." .. name, label, ...)
end

local wide = {} -- names that have more than 32 bits in some header
for _, t in pairs(TABLE) do
	for _, f in ipairs(t) do
		if f.bits > 32 then wide[f.name] = true end
	end
end

-- One field for all the headers that have the name; one more where they count other code points, under the same name.
local function key(f) return f.enum and f.name .. "/" .. f.enum or f.name end

for _, t in pairs(TABLE) do
	for _, f in ipairs(t) do
		local k, abbr, label = key(f), NAME .. "." .. f.name, string.gsub(f.name, "^%w+%.", "")
		if F[k] then -- another header has it as well
		elseif f.bytes then
			F[k] = ProtoField.bytes(abbr, label, base.NONE, f.doc)
		elseif wide[f.name] then
			F[k] = ProtoField.uint64(abbr, label, base.DEC, nil, nil, f.doc)
		else
			F[k] = ProtoField.uint32(abbr, label, base.DEC, f.enum and ENUM[f.enum] or nil, nil, f.doc)
		end
	end
end

local function number(name, label, values) field(name, ProtoField.uint32, label, base.DEC, values) end

number("ev", "Entropy value")
number("crc32c", "UET CRC")
number("crc.status", "UET CRC status", { [0] = "bad", [1] = "good", [2] = "not checked" })
number("udp_length", "UDP length before trimming")
number("stream", "Conversation")
number("clear_psn", "CLEAR_PSN")
number("start_psn", "Start_PSN")
number("ack_psn", "ACK_PSN")
number("sack_base_psn", "SACK base PSN")
number("sacked_psns", "Selectively acknowledged PSN")
number("mp_range", "MP_Range")
for _, name in ipairs({ "retx", "ar", "syn", "m", "nt", "p", "epsn", "isrod", "req" }) do
	number("flag_" .. name, string.upper(name))
end
for name, label in pairs({ payload = "Payload", ["tss.ciphertext"] = "Ciphertext", ["tss.icv"] = "ICV" }) do
	field(name, ProtoField.bytes, label)
end
local function frame(name, label, kind) field(name, ProtoField.framenum, label, base.NONE, kind) end
frame("acked_in", "Acknowledged in frame", frametype.ACK)
frame("acks", "Acknowledges frame", frametype.ACK)
frame("nacked_in", "Refused in frame", frametype.DUP_ACK)
frame("nacks", "Refuses frame", frametype.DUP_ACK)
frame("retransmits", "Retransmission of frame", frametype.RETRANS_PREV)
frame("answered_in", "Answered in frame", frametype.RESPONSE)
frame("answers", "Answers frame", frametype.REQUEST)
field("ack_time", ProtoField.relative_time, "Time since the frame was sent")

local list = {}
for _, f in pairs(F) do list[#list + 1] = f end
uet.fields = list

local X = {
	trimmed = ProtoExpert.new(NAME .. ".trimmed", "Trimmed by a switch", expert.group.SEQUENCE, expert.severity.NOTE),
	retx = ProtoExpert.new(NAME .. ".retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
	nack = ProtoExpert.new(NAME .. ".nack", "NACK", expert.group.SEQUENCE, expert.severity.WARN),
	short = ProtoExpert.new(NAME .. ".truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR),
	odd = ProtoExpert.new(NAME .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
	crc = ProtoExpert.new(NAME .. ".crc.bad", "UET CRC does not fit the packet", expert.group.CHECKSUM, expert.severity.ERROR),
	failed = ProtoExpert.new(NAME .. ".return_code.error", "The request failed", expert.group.RESPONSE_CODE, expert.severity.WARN),
}
local experts = {}
for _, x in pairs(X) do experts[#experts + 1] = x end
uet.experts = experts

local function generated(tree, name, value)
	local item = tree:add(F[name], value)
	item:set_generated()
	return item
end

-- bits cuts a number out of a header; more than 32 bits give a UInt64.
local function bits(header, off, n) return header:range(math.floor(off / 8), math.floor((off + n - 1) / 8) - math.floor(off / 8) + 1):bitfield(off % 8, n) end

-- present tells whether a header of len bytes has the field.
local function present(f, header, len)
	if f.off + f.bits > len * 8 then return false end
	for _, c in ipairs(f.when or {}) do
		if (c[4][bits(header, c[1], c[2])] or false) ~= c[3] then return false end
	end
	return true
end

local function flag_names(set, value)
	local names = {}
	for mask, name in pairs(set) do
		if bit.band(value, mask) ~= 0 then names[#names + 1] = name end
	end
	table.sort(names)
	return table.concat(names, " ")
end

local function show_number(f, range, tree, v)
	local n
	if f.little then
		n = range:le_uint()
	else
		n = range:bitfield(f.off % 8, f.bits)
	end
	v[f.name] = n
	local value = n
	if wide[f.name] and type(n) == "number" then value = UInt64.new(n) end
	local item = tree:add(F[key(f)], range, value)
	if f.signed and f.bits <= 16 and n >= 2 ^ (f.bits - 1) then item:append_text(string.format(" (%d)", n - 2 ^ f.bits)) end
	if f.flags and n ~= 0 then item:append_text(" (" .. flag_names(ENUM[f.flags], n) .. ")") end
end

-- show adds the fields that a header has, puts their values into v by name, and gives the header's item; nil where not all
-- of the header is there. len is the header's length where that is not fixed.
local function show(name, tvb, off, tree, v, len)
	local t = TABLE[name]
	len = len or t.len
	if tvb:len() - off < len then
		tree:add_proto_expert_info(X.short, string.format("%s: %d of %d bytes are there", name, math.max(0, tvb:len() - off), len))
		return nil
	end
	local header = tvb:range(off, len)
	local sub = tree:add(header, name)
	for _, f in ipairs(t) do
		if present(f, header, len) then
			local first = math.floor(f.off / 8)
			local range = header:range(first, math.floor((f.off + f.bits - 1) / 8) - first + 1)
			if f.bytes then
				sub:add(F[key(f)], range)
			else
				show_number(f, range, sub, v)
			end
		end
	end
	return sub
end

-- Checksums ------------------------------------------------------------------------------------------------------------------

local function table_of(poly)
	local t = {}
	for i = 0, 255 do
		local c = i
		for _ = 1, 8 do
			c = bit.band(c, 1) == 1 and bit.bxor(bit.rshift(c, 1), poly) or bit.rshift(c, 1)
		end
		t[i] = c
	end
	return t
end

local CASTAGNOLI, IEEE = table_of(0x82F63B78), table_of(0xEDB88320)

-- crc32 goes over strings of bytes.
local function crc32(t, ...)
	local c, band, bxor, rshift = bit.bnot(0), bit.band, bit.bxor, bit.rshift
	for _, s in ipairs({ ... }) do
		for i = 1, #s do
			c = bxor(rshift(c, 8), t[band(bxor(c, string.byte(s, i)), 0xFF)])
		end
	end
	return bit.bnot(c) % 4294967296
end

local f_src4, f_dst4, f_src6, f_dst6 = Field.new("ip.src"), Field.new("ip.dst"), Field.new("ipv6.src"), Field.new("ipv6.dst")
local f_dscp4, f_dscp6 = Field.new("ip.dsfield.dscp"), Field.new("ipv6.tclass.dscp")
local f_udp, f_length = Field.new("udp"), Field.new("udp.length")

-- last gives the innermost occurrence of a field in the packet so far.
local function last(f)
	local all = { f() }
	return all[#all]
end

local function bytes(info) return info and info.range:raw() or "" end

-- crc_fits checks the UET CRC at the end of tvb: CRC-32C from the IP source address on, least significant byte first.
local function crc_fits(tvb, ctx)
	local src, dst = last(f_src4), last(f_dst4)
	if not src then src, dst = last(f_src6), last(f_dst6) end
	if not src then return nil end -- a first pass for which no fields are kept
	local n = tvb:len() - 4
	local sum = crc32(CASTAGNOLI, bytes(src), bytes(dst), ctx.entropy or bytes(last(f_udp)), n > 0 and tvb:range(0, n):raw() or "")
	return sum == tvb:range(n, 4):le_uint()
end

local sums = {} -- what was found of frames so far

local function crc_known(tvb, ctx)
	if sums[ctx.number] == nil then sums[ctx.number] = crc_fits(tvb, ctx) end
	return sums[ctx.number]
end

-- Conversations --------------------------------------------------------------------------------------------------------------

-- A conversation is a PDC: the two addresses, and the PDCID that each of them gave it. What is learnt of a frame in the first
-- pass is kept by its number.
local ends, frames, rudi, count

local function reset()
	ends, frames, rudi, count, sums = {}, {}, {}, 0, {}
end
reset()
uet.init = reset

-- before compares PSNs, which wrap at 2^32.
local function before(a, b) return a ~= b and (b - a) % 4294967296 < 2147483648 end

local function conversation(v, src, dst)
	local from = v.spdcid ~= 0 and src .. "|" .. dst .. "|" .. v.spdcid or nil
	local to = v.dpdcid and v.dpdcid ~= 0 and dst .. "|" .. src .. "|" .. v.dpdcid or nil
	local c, other = from and ends[from], to and ends[to]
	if other and (not c or c.id < other.id) then c = other end
	if c and v.start and c.start and (c.opener ~= from or c.start ~= v.start) then c = nil end -- the PDCID serves again
	if not c then
		c = { id = count, sent = {}, probes = {} }
		count = count + 1
	end
	if v.start and not c.start then c.start, c.opener = v.start, from end
	if from then ends[from] = c end
	if to then ends[to] = c end
	return c
end

local function direction(c, src)
	local d = c.sent[src]
	if not d then
		d = { first = {}, last = {}, waiting = {} }
		c.sent[src] = d
	end
	return d
end

local function sent(d, psn, number, me)
	local was = d.first[psn]
	if was then me.retransmits = was else d.first[psn] = number end
	d.last[psn] = number
	local w = d.waiting[psn] or {}
	w[#w + 1] = number
	d.waiting[psn] = w
end

local function acked(d, psn, number)
	for _, n in ipairs(d.waiting[psn] or {}) do frames[n].acked_in = number end
	d.waiting[psn] = nil
end

-- acknowledge marks what an ACK acknowledges: its ACK_PSN, all up to CACK_PSN, and the bits of its bitmap.
local function acknowledge(d, v, number, me)
	if v.ack_psn then
		me.acks = d.last[v.ack_psn]
		acked(d, v.ack_psn, number)
	end
	local done = {}
	for psn in pairs(d.waiting) do
		if not before(v.cack, psn) then done[#done + 1] = psn end
	end
	for _, psn in ipairs(done) do acked(d, psn, number) end
	for _, psn in ipairs(v.sacked or {}) do acked(d, psn, number) end
end

-- learn notes a packet in the first pass. v has kind ("send", "probe", "ack", "nack", "rudi_req", "rudi_resp", "other"), psn, spdcid, dpdcid, …
local function learn(v, pinfo)
	local number, src, dst = pinfo.number, tostring(pinfo.net_src), tostring(pinfo.net_dst)
	local me = { time = pinfo.rel_ts }
	frames[number] = me
	if v.kind == "rudi_req" then
		local key = src .. "|" .. dst .. "|" .. v.pkt_id
		me.retransmits, rudi[key] = rudi[key], number
		return me
	elseif v.kind == "rudi_resp" or v.kind == "rudi_nack" then
		local asked = rudi[dst .. "|" .. src .. "|" .. v.pkt_id]
		me[v.kind == "rudi_resp" and "answers" or "nacks"] = asked
		if asked then frames[asked][v.kind == "rudi_resp" and "answered_in" or "nacked_in"] = number end
		return me
	elseif not v.spdcid then
		return me
	end
	local c = conversation(v, src, dst)
	me.stream = c.id
	if v.kind == "send" then
		sent(direction(c, src), v.psn, number, me)
	elseif v.kind == "probe" then
		c.probes[src .. "|" .. v.opaque] = number
	elseif v.kind == "ack" then
		if v.opaque then
			me.acks = c.probes[dst .. "|" .. v.opaque]
			if me.acks then frames[me.acks].acked_in = number end
		end
		acknowledge(direction(c, dst), v, number, me)
	elseif v.kind == "nack" then
		me.nacks = direction(c, dst).last[v.psn]
		if me.nacks then frames[me.nacks].nacked_in = number end
	end
	return me
end

local quoted = false -- within ICMP

-- links shows what is known of a frame; forward references are there from the second pass on.
local function links(v, pinfo, tree)
	if quoted then return end
	local me = frames[pinfo.number]
	if not pinfo.visited then me = learn(v, pinfo) end
	if not me then return end
	if me.stream then generated(tree, "stream", me.stream) end
	for _, name in ipairs({ "retransmits", "acked_in", "acks", "nacked_in", "nacks", "answered_in", "answers" }) do
		if me[name] then generated(tree, name, me[name]) end
	end
	local of = me.acks or me.answers or me.nacks
	if of and frames[of] then
		local ns = math.floor((me.time - frames[of].time) * 1e9 + 0.5)
		if ns >= 0 then generated(tree, "ack_time", NSTime(math.floor(ns / 1000000000), ns % 1000000000)) end
	end
	if v.retx and me.retransmits then
		tree:add_proto_expert_info(X.retx, "Retransmission of frame " .. me.retransmits)
	elseif v.retx and v.kind ~= "ack" and v.kind ~= "nack" then
		tree:add_proto_expert_info(X.retx, "Retransmission")
	end
end

-- SES ------------------------------------------------------------------------------------------------------------------------

local RENDEZVOUS = { [6] = true, [10] = true }
local ATOMIC = { [3] = true, [4] = true, [13] = true, [14] = true }
local BARE = { [2] = true, [12] = true, [15] = true } -- READ, DEFERRABLE_RTR, MSG_ERROR carry no payload
local CSWAP_FIRST, CSWAP_LAST, ATOMIC_READ = 0x0D, 0x12, 0x0B

-- ses_extension shows what stands between a request's header and its payload, and gives where it ends; nil if it is cut.
local function ses_extension(tvb, off, tree, v)
	local op = v["ses.opcode"]
	if ATOMIC[op] then
		local amo = tvb:len() > off and tvb:range(off, 1):uint() or 0
		local len = amo >= CSWAP_FIRST and amo <= CSWAP_LAST and 36 or 4
		return show("atomic extension", tvb, off, tree, v, len) and off + len or nil
	elseif RENDEZVOUS[op] and v["pds.next_hdr"] == 3 then
		return show("rendezvous extension", tvb, off, tree, v) and off + 24 or nil
	end
	return off
end

-- payload_length gives the payload bytes that the header speaks of, and whether all of them must be in this packet.
local function payload_length(v)
	local next_hdr, op = v["pds.next_hdr"], v["ses.opcode"]
	if next_hdr == 4 then return 0, true end
	if next_hdr > 4 then return v["ses.payload_length"], true end
	local amo = v["ext.amo_opcode"]
	if BARE[op] or amo and (amo == ATOMIC_READ or amo >= CSWAP_FIRST and amo <= CSWAP_LAST) then return 0, true end
	if v["ses.payload_length"] then return v["ses.payload_length"], true end
	return v["ses.request_length"], false
end

local function ses_info(v)
	local next_hdr = v["pds.next_hdr"]
	local words = {}
	local function word(s) words[#words + 1] = s end
	local function num(label, name) if v[name] then word(label .. " " .. tostring(v[name])) end end
	if next_hdr >= 4 then
		word(ENUM.RespOpcode[v["ses.opcode"]] or "RESPONSE " .. v["ses.opcode"])
		word(ENUM.ReturnCode[v["ses.return_code"]] or "RC " .. v["ses.return_code"])
		if v["ses.list"] ~= 0 then word(ENUM.List[v["ses.list"]]) end
		num("msg", next_hdr == 5 and "ses.read_request_message_id" or "ses.message_id")
		num("psn", "ses.original_request_psn")
		num("off", "ses.message_offset")
		num("len", "ses.payload_length")
		num("modified", "ses.modified_length")
		num("job", "ses.job_id")
		return table.concat(words, " ")
	end
	word(ENUM.Opcode[v["ses.opcode"]] or "OPCODE " .. v["ses.opcode"])
	if v["ext.amo_opcode"] then word((ENUM.AtomicOp[v["ext.amo_opcode"]] or "?") .. " " .. (ENUM.AtomicType[v["ext.amo_datatype"]] or "?")) end
	for _, f in ipairs({ "som", "eom", "dc", "ie" }) do
		if v["ses." .. f] == 1 then word(string.upper(f)) end
	end
	num("msg", "ses.message_id")
	num("off", "ses.message_offset")
	if v.payload then word("len " .. v.payload) end
	num("of", "ses.request_length")
	num("eager", "ext.eager_length")
	num("job", "ses.job_id")
	num("pid", "ses.pid_on_fep")
	num("ri", "ses.resource_index")
	return table.concat(words, " ")
end

-- trailer_crc takes 4 bytes off the end where they are the UET CRC: n is where the payload would end without one.
local function trailer_crc(tvb, n, want, exact, ctx)
	local left = tvb:len() - n
	if ctx.cut or not ctx.ip then return tvb:len(), nil end
	local surplus = left - want
	if surplus == 4 or surplus < 4 and not exact and left >= 4 then
		if not uet.prefs.crc then return surplus == 4 and tvb:len() - 4 or tvb:len(), surplus == 4 and 2 or nil end
		if crc_known(tvb, ctx) then return tvb:len() - 4, 1 end
		if surplus == 4 then return tvb:len() - 4, 0 end
	end
	return tvb:len(), nil
end

local function show_crc(tvb, stop, status, tree)
	local item = tree:add_le(F.crc32c, tvb:range(stop, 4))
	item:append_text(status == 1 and " (good)" or status == 0 and " (bad)" or "")
	generated(tree, "crc.status", status)
	if status == 0 then item:add_proto_expert_info(X.crc) end
end

-- ses shows what follows a PDS header; of a trimmed packet only what is all there.
local function ses(tvb, off, tree, v, ctx)
	local name = BY.ses[v["pds.next_hdr"] or 0]
	if not name then
		if v["pds.next_hdr"] and v["pds.next_hdr"] ~= 0 then tree:add_proto_expert_info(X.odd, "next_hdr is reserved") end
		local stop, status = trailer_crc(tvb, off, 0, true, ctx)
		if status then show_crc(tvb, stop, status, tree) end
		if stop > off and not ctx.cut and not v.nack then tree:add_proto_expert_info(X.odd, stop - off .. " bytes follow the packet") end
		return nil
	end
	if ctx.cut and tvb:len() - off < TABLE[name].len then return nil end
	local sub = show(name, tvb, off, tree, v)
	if not sub then return nil end
	if v["ses.return_code"] and v["ses.return_code"] > 1 then
		sub:add_proto_expert_info(X.failed, "The request failed: " .. (ENUM.ReturnCode[v["ses.return_code"]] or v["ses.return_code"]))
	end
	off = off + TABLE[name].len
	if ctx.cut then return ses_info(v) end
	if v["pds.next_hdr"] <= 3 then
		local n = ses_extension(tvb, off, tree, v)
		if not n then return ses_info(v) end
		off = n
	end
	local want, exact = payload_length(v)
	local stop, status = trailer_crc(tvb, off, want, exact, ctx)
	if exact and want > stop - off then
		sub:add_proto_expert_info(X.odd, string.format("payload_length: %d bytes, of which %d are there", want, stop - off))
	end
	want = math.min(want, stop - off)
	v.payload = want
	if want > 0 then tree:add(F.payload, tvb:range(off, want)) end
	if stop - off > want then tree:add_proto_expert_info(X.odd, stop - off - want .. " bytes follow the payload") end
	if status then show_crc(tvb, stop, status, tree) end
	return ses_info(v)
end

-- PDS ------------------------------------------------------------------------------------------------------------------------

local function plus(psn, n) return (psn + n) % 4294967296 end
local function signed(n) return n >= 0x8000 and n - 0x10000 or n end

-- The bits of pds.flags that mean the same in more than one header.
local SYN, AR, RETX, M = 0x04, 0x08, 0x10, 0x20

local function flag(tree, v, name, mask)
	local on = bit.band(v["pds.flags"], mask) ~= 0
	generated(tree, "flag_" .. name, on and 1 or 0)
	v[name] = on
end

-- Each of these adds what follows from the fields of its header, says what kind of packet it is, and gives the words of the
-- info column.
local derive = {}

local function pdc_words(v) return " spdcid " .. v.spdcid .. (v.dpdcid and " dpdcid " .. v.dpdcid or "") end

local function sequence(tree, v)
	v.psn, v.spdcid, v.dpdcid = v["pds.psn"], v["pds.spdcid"], v["pds.dpdcid"]
	if v["pds.psn_offset"] then
		v.start = plus(v.psn, -v["pds.psn_offset"])
		generated(tree, "start_psn", v.start)
	end
	return " psn " .. v.psn .. (v.start and " (start+" .. v["pds.psn_offset"] .. ")" or "")
end

function derive.request(tree, v)
	v.kind = "send"
	local words = sequence(tree, v)
	local clear = plus(v.psn, signed(v["pds.clear_psn_offset"]))
	generated(tree, "clear_psn", clear)
	flag(tree, v, "retx", RETX)
	flag(tree, v, "ar", AR)
	flag(tree, v, "syn", SYN)
	return (v.syn and " SYN" or "") .. (v.retx and " RETX" or "") .. (v.ar and " AR" or "") .. words .. " clear " .. clear .. pdc_words(v)
end

local function sacked(tree, v)
	local from = plus(v.cack, signed(v["pds.sack_psn_offset"]))
	generated(tree, "sack_base_psn", from)
	v.sacked = {}
	local map = v["pds.sack_bitmap"]
	for half, word in ipairs({ map:lower(), map:higher() }) do
		for i = 0, 31 do
			if bit.band(bit.rshift(word, i), 1) == 1 then
				local psn = plus(from, (half - 1) * 32 + i)
				v.sacked[#v.sacked + 1] = psn
				generated(tree, "sacked_psns", psn)
			end
		end
	end
	generated(tree, "mp_range", v["pds.mpr"] * 128)
	return #v.sacked > 0 and " sack " .. #v.sacked .. " from " .. from or ""
end

function derive.ack(tree, v)
	v.kind, v.cack, v.spdcid, v.dpdcid = "ack", v["pds.cack_psn"], v["pds.spdcid"], v["pds.dpdcid"]
	v.opaque = v["pds.probe_opaque"]
	if v["pds.ack_psn_offset"] then
		v.ack_psn = plus(v.cack, signed(v["pds.ack_psn_offset"]))
		generated(tree, "ack_psn", v.ack_psn)
	end
	local sack = v["pds.sack_bitmap"] and sacked(tree, v) or ""
	flag(tree, v, "epsn", 0x40)
	flag(tree, v, "m", M)
	flag(tree, v, "retx", RETX)
	flag(tree, v, "p", 0x08)
	local req = bit.rshift(bit.band(v["pds.flags"], 0x06), 1)
	generated(tree, "flag_req", req)
	return (v.m and " M" or "") .. (v.retx and " RETX" or "") .. (req > 0 and " REQ_" .. ({ "CLEAR", "CLOSE", "3" })[req] or "") ..
		" cack " .. v.cack .. (v.ack_psn and " ack " .. v.ack_psn or string.format(" probe 0x%x", v.opaque)) .. sack .. pdc_words(v)
end

function derive.nack(tree, v)
	v.nack, v.spdcid, v.dpdcid = true, v["pds.spdcid"], v["pds.dpdcid"]
	v.kind, v.psn, v.pkt_id = v["pds.nack_psn"] and "nack" or "rudi_nack", v["pds.nack_psn"], v["pds.nack_pkt_id"]
	flag(tree, v, "m", M)
	flag(tree, v, "retx", RETX)
	flag(tree, v, "nt", 0x08)
	local code = ENUM.NackCode[v["pds.nack_code"]] or string.format("code 0x%02x", v["pds.nack_code"])
	local of = v.psn and "psn " .. v.psn or string.format("RUDI pkt 0x%x", v.pkt_id)
	tree:add_proto_expert_info(X.nack, "NACK: " .. code .. ", " .. of)
	return " " .. code .. (v.m and " M" or "") .. (v.retx and " RETX" or "") .. " " .. of .. (v.psn and pdc_words(v) or "")
end

local PROBE, PSN_OF_ITS_OWN = 6, { [0] = true, [4] = true, [5] = true } -- NOOP and both CLOSEs take a PSN

function derive.ctrl(tree, v)
	local ctl = v["pds.ctl_type"]
	local words = sequence(tree, v)
	v.kind = ctl == PROBE and "probe" or PSN_OF_ITS_OWN[ctl] and "send" or "other"
	v.opaque = v["pds.probe_opaque"]
	flag(tree, v, "isrod", 0x20)
	flag(tree, v, "retx", RETX)
	flag(tree, v, "ar", AR)
	flag(tree, v, "syn", SYN)
	return " " .. (ENUM.CtlType[ctl] or ctl) .. (v.syn and " SYN" or "") .. (v.retx and " RETX" or "") .. (v.ar and " AR" or "") .. words .. pdc_words(v)
end

function derive.rudi(tree, v)
	v.pkt_id = v["pds.pkt_id"]
	v.kind = v["pds.type"] == 4 and "rudi_req" or "rudi_resp"
	flag(tree, v, "m", M)
	flag(tree, v, "retx", RETX)
	return (v.retx and " RETX" or "") .. (v.m and " M" or "") .. string.format(" pkt 0x%x", v.pkt_id)
end

local DERIVE = { [2] = "request", [3] = "request", [13] = "request", [14] = "request", [7] = "ack", [8] = "ack", [9] = "ack",
	[10] = "nack", [12] = "nack", [11] = "ctrl", [4] = "rudi", [5] = "rudi" }
local CTRL, TSS, ICV_LEN = 11, 1, 16

-- ctrl_length: the header is 16 bytes, of which NOOP and the CLOSEs may leave out the last 4; a Negotiation says its length.
local function ctrl_length(tvb)
	local ctl = bit.band(bit.rshift(tvb:range(0, 2):uint(), 7), 15)
	if ctl == 9 and tvb:len() >= 14 then return 12 + math.max(2, tvb:range(13, 1):uint()) * 4 end
	return PSN_OF_ITS_OWN[ctl] and tvb:len() < 16 and 12 or 16
end

local function tss(tvb, tree, ctx)
	local len = bit.band(tvb:range(0, 1):uint(), 4) ~= 0 and 16 or 12
	local v = {}
	if not show("TSS", tvb, 0, tree, v, len) then return "TSS" end
	local sealed = tvb:len() - len
	if not ctx.cut and sealed < ICV_LEN then
		tree:add_proto_expert_info(X.short, "TSS: the ICV is missing")
	end
	local body = not ctx.cut and sealed >= ICV_LEN and sealed - ICV_LEN or sealed
	if body > 0 then tree:add(F["tss.ciphertext"], tvb:range(len, body)) end
	if body < sealed then tree:add(F["tss.icv"], tvb:range(len + body)) end
	return string.format("TSS sdi %d an %d epoch %d counter %s sealed %d", v["tss.sdi"], v["tss.an"], v["tss.epoch"], tostring(v["tss.counter"]), sealed)
end

local sent_length -- UDP length of the trimmed packet that is being shown

local function is_trimmed(dscp) return dscp == uet.prefs.trimmed or dscp == uet.prefs.trimmed_lasthop end

-- packet shows a UET packet, tvb being what follows the UDP or entropy header.
local function packet(tvb, pinfo, root, ctx)
	pinfo.cols.protocol = "UET"
	local tree = root:add(uet, tvb())
	ctx.number = pinfo.number
	local dscp = last(f_dscp4) or last(f_dscp6)
	dscp = dscp and dscp.value
	local trimmed = dscp ~= nil and is_trimmed(dscp)
	ctx.cut = ctx.cut or trimmed
	if ctx.ev then tree:add(F.ev, ctx.ev):set_generated() end
	if sent_length then generated(tree, "udp_length", sent_length) end
	if trimmed then tree:add_proto_expert_info(X.trimmed, dscp == uet.prefs.trimmed and "Trimmed by a switch" or "Trimmed by the last switch") end
	local info
	if tvb:len() < 2 then
		tree:add_proto_expert_info(X.short, "Shorter than the prologue")
		info = "truncated"
	elseif bit.rshift(tvb:range(0, 1):uint(), 3) == TSS then
		info = tss(tvb, tree, ctx)
	else
		local kind, v = bit.rshift(tvb:range(0, 1):uint(), 3), {}
		local name = BY.pds[kind]
		local len = name and (kind == CTRL and ctrl_length(tvb) or TABLE[name].len)
		info = ENUM.PDSType[kind] or "PDS type " .. kind
		if not name then
			show("PDS prologue", tvb, 0, tree, v)
			tree:add_proto_expert_info(X.odd, "PDS type " .. kind .. " is reserved")
		elseif show(name, tvb, 0, tree, v, len) then
			if DERIVE[kind] then
				info = info .. derive[DERIVE[kind]](tree, v)
				links(v, pinfo, tree)
			end
			local more = ses(tvb, len, tree, v, ctx)
			if more then info = info .. " | " .. more end
		end
	end
	if trimmed then info = info .. " TRIMMED" end
	tree:append_text(": " .. info)
	pinfo.cols.info = info
end

function uet.dissector(tvb, pinfo, root)
	local length = last(f_length)
	local cut = length ~= nil and length.value - 8 > tvb:reported_len()
	packet(tvb, pinfo, root, { ip = true, udp = true, cut = cut, ev = pinfo.src_port })
	return tvb:len()
end

function native.dissector(tvb, pinfo, root)
	if tvb:len() < 4 then
		root:add(uet, tvb()):add_proto_expert_info(X.short, "Shorter than the entropy header")
		return tvb:len()
	end
	packet(tvb(4):tvb(), pinfo, root, { ip = true, ev = tvb:range(0, 2):uint(), entropy = tvb:range(0, 4):raw() })
	return tvb:len()
end

-- Link -----------------------------------------------------------------------------------------------------------------------

local TRAILER_LEN, MAGIC = 24, 0x55454C31
local LINK_CONTROL, MAC_CONTROL, CC_UPDATE = 0x88B5, 0x8808, 0xFFFE
local LLDP, ORGANISATION, UEC = 0x88CC, 127, 0xFA7ACB

local function has_trailer(tvb)
	local n = tvb:len()
	return link.prefs.trailer and n >= TRAILER_LEN and n == tvb:reported_len() and tvb:range(n - TRAILER_LEN, 4):uint() == MAGIC
end

-- The trailer stands behind every frame whatever it carries, so it is looked for after all else.
function link.dissector(tvb, pinfo, root)
	if not has_trailer(tvb) then return end
	local n = tvb:len() - TRAILER_LEN
	local tree = root:add(link, tvb:range(n))
	local v = {}
	show("link trailer", tvb, n, tree, v)
	if crc32(CASTAGNOLI, tvb:range(n, 16):raw()) ~= v["trailer.crc"] then
		tree:add_proto_expert_info(X.odd, "link trailer: its CRC does not fit")
	end
	if link.prefs.fcs and v["trailer.llr_kind"] ~= 2 and crc32(IEEE, tvb:range(0, n):raw()) ~= v["trailer.fcs"] then
		tree:add_proto_expert_info(X.odd, "link trailer: the FCS does not fit the frame")
	end
	tree:append_text(": due " .. tostring(v["trailer.due"]) .. " ns")
end

-- Others that read Ethernet trailers are kept off it.
link:register_heuristic("eth.trailer", function(tvb) return has_trailer(tvb) end)

-- ordered_sets shows up to 8 images of 8 bytes.
local function ordered_sets(tvb, tree)
	local names, off, stop = {}, 0, tvb:len() - (has_trailer(tvb) and TRAILER_LEN or 0)
	while off + 8 <= stop and tvb:range(off, 1):uint() == 0x5C do
		local kind = tvb:range(off + 1, 1):uint()
		local name = BY.ctlos[kind]
		if name then
			show(name, tvb, off, tree, {})
		else
			tree:add_proto_expert_info(X.odd, "ordered set type " .. kind .. " is reserved")
		end
		names[#names + 1] = ENUM.CtlOSType[kind] or tostring(kind)
		off = off + 8
	end
	return table.concat(names, ", ")
end

local plain_mac_control = DissectorTable.get("ethertype"):get_dissector(MAC_CONTROL)

function control.dissector(tvb, pinfo, root)
	if tvb:len() >= 2 and tvb:range(0, 2):uint() == CC_UPDATE then
		local tree = root:add(control, tvb())
		show("CC_Update", tvb, 0, tree, {})
		pinfo.cols.protocol, pinfo.cols.info = "UE link", "CC_Update"
	elseif tvb:len() >= 1 and tvb:range(0, 1):uint() == 0x5C then
		local tree = root:add(control, tvb())
		pinfo.cols.protocol, pinfo.cols.info = "UE link", ordered_sets(tvb, tree)
	elseif plain_mac_control then
		pcall(plain_mac_control.call, plain_mac_control, tvb, pinfo, root) -- PAUSE
	end
	return tvb:len()
end

-- ue_tlv shows a TLV of the UEC, len bytes with its header, and what follows from the second on: the channels of a receiver.
local function ue_tlv(tvb, off, len, tree, names)
	local name, v = BY.lldp_ue[tvb:range(off + 5, 1):uint()], {}
	if not name then
		tree:add_proto_expert_info(X.odd, "subtype " .. tvb:range(off + 5, 1):uint() .. " of the UEC is not known")
		return
	end
	names[#names + 1] = name
	if len < TABLE[name].len then
		tree:add_proto_expert_info(X.short, string.format("%s: %d of %d bytes are there", name, len, TABLE[name].len))
		return
	end
	local sub = show(name, tvb, off, tree, v)
	local at = off + TABLE[name].len
	for i = 1, v["lldp.num_vc"] or 0 do
		if at + TABLE["UE CBFC VC"].len > off + len then
			sub:add_proto_expert_info(X.odd, string.format("%s: channel %d of %d is beyond its end", name, i, v["lldp.num_vc"]))
			return
		end
		show("UE CBFC VC", tvb, at, sub, {})
		at = at + TABLE["UE CBFC VC"].len
	end
end

local plain_lldp = DissectorTable.get("ethertype"):get_dissector(LLDP)

-- Wireshark shows the frame, and those of the UEC as TLVs of an organisation it does not know. These are shown again below it.
function lldp.dissector(tvb, pinfo, root)
	local all = tvb:range():tvb() -- tvb is cut short where Wireshark takes its end to be
	if plain_lldp then pcall(plain_lldp.call, plain_lldp, tvb, pinfo, root) end
	local off, tree, names = 0, nil, {}
	while off + 2 <= all:len() do
		local head = all:range(off, 2):uint()
		local kind, len = math.floor(head / 512), 2 + head % 512
		if kind == 0 or off + len > all:len() then break end
		if kind == ORGANISATION and len >= 6 and all:range(off + 2, 3):uint() == UEC then
			tree = tree or root:add(lldp, all())
			ue_tlv(all, off, len, tree, names)
		end
		off = off + len
	end
	if tree then tree:append_text(": " .. table.concat(names, ", ")) end
	return tvb:len()
end

-- A CSIG tag stands between the MAC addresses and what the packet is, like an 802.1Q tag.
function csig.dissector(tvb, pinfo, root)
	local v, name = {}, BY.csig[pinfo.match_uint]
	if not show(name, tvb, 0, root:add(csig, tvb(0, math.min(tvb:len(), TABLE[name].len))), v) then return tvb:len() end
	DissectorTable.get("ethertype"):try(v["csig.type"], tvb:range(TABLE[name].len):tvb(), pinfo, root)
	return tvb:len()
end

-- Where packets come from ----------------------------------------------------------------------------------------------------

DissectorTable.get("udp.port"):add(4793, uet)
DissectorTable.get("ethertype"):add(LINK_CONTROL, control)
DissectorTable.get("ethertype"):add(MAC_CONTROL, control)
DissectorTable.get("ethertype"):add(LLDP, lldp)
for tpid in pairs(BY.csig) do DissectorTable.get("ethertype"):add(tpid, csig) end
register_postdissector(link)

-- UDP goes through here. Of packets to UET two things would mislead Wireshark's UDP:
-- The source port is the entropy value, and where some protocol is known to have that port, it would take the packet. So it
-- is made UET's for as long as the packet is taken apart.
-- A trimmed packet keeps its UDP length, which would be taken for an error. UDP is given a copy of the packet with the length
-- that is left; udp_length has the one on the wire.
local udp, ports = DissectorTable.get("ip.proto"):get_dissector(17), DissectorTable.get("udp.port")

-- cut_length gives a trimmed packet with its length put right, and its length as it was; else the packet as it is.
local function cut_length(tvb)
	local dscp, n = last(f_dscp4) or last(f_dscp6), tvb:len()
	local length = tvb:range(4, 2):uint()
	if not dscp or not is_trimmed(dscp.value) or n < tvb:reported_len() or length <= n then return tvb, nil end
	local copy = tvb:bytes()
	copy:set_index(4, math.floor(n / 256))
	copy:set_index(5, n % 256)
	return copy:tvb("UDP with the length left by trimming"), length
end

function over_udp.dissector(tvb, pinfo, root)
	local given, other, port = tvb, nil, nil
	if tvb:len() >= 8 and tvb:range(2, 2):uint() == 4793 then
		port = tvb:range(0, 2):uint()
		other = port < 4793 and ports:get_dissector(port) or nil -- the lower of the two ports is asked first
		given, sent_length = cut_length(tvb)
	end
	if other then ports:add(port, uet) end
	pcall(udp.call, udp, given, pinfo, root) -- what fails there is shown there
	if other then ports:add(port, other) end
	sent_length = nil
	return tvb:reported_len()
end
DissectorTable.get("ip.proto"):add(17, over_udp)

-- ICMP quotes packets, which Wireshark takes apart like others; they are no packets of their own.
local icmp = { [1] = DissectorTable.get("ip.proto"):get_dissector(1), [58] = DissectorTable.get("ip.proto"):get_dissector(58) }

function icmp_error.dissector(tvb, pinfo, root)
	local d = icmp[pinfo.match_uint]
	quoted = true
	pcall(d.call, d, tvb, pinfo, root)
	quoted = false
	return tvb:reported_len()
end
for n in pairs(icmp) do DissectorTable.get("ip.proto"):add(n, icmp_error) end

local protocol = 0

local function set_protocol()
	local t = DissectorTable.get("ip.proto")
	if protocol == uet.prefs.native then return end
	if protocol > 0 then t:remove(protocol, native) end
	protocol = uet.prefs.native
	if protocol > 0 then t:add(protocol, native) end
end
set_protocol()
uet.prefs_changed = set_protocol
