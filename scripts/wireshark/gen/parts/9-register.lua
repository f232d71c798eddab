-- Where packets come from ----------------------------------------------------------------------------------------------------

DissectorTable.get("udp.port"):add(4793, uet)

-- A trimmed packet keeps its UDP length, which Wireshark's UDP takes for an error. It is given a copy of the packet with the
-- length that is left; udp_length has the one on the wire.
local udp = DissectorTable.get("ip.proto"):get_dissector(17)

function trimmed_udp.dissector(tvb, pinfo, root)
	local n = tvb:reported_len()
	local to_uet = n >= 8 and tvb:len() == n and tvb:range(2, 2):uint() == 4793
	local dscp = to_uet and (last(f_dscp4) or last(f_dscp6))
	if not dscp or not is_trimmed(dscp.value) or tvb:range(4, 2):uint() <= n then
		pcall(udp.call, udp, tvb, pinfo, root) -- what fails there is shown there
		return n
	end
	sent_length = tvb:range(4, 2):uint()
	local copy = tvb:bytes()
	copy:set_index(4, math.floor(n / 256))
	copy:set_index(5, n % 256)
	pcall(udp.call, udp, copy:tvb("UDP with the length left by trimming"), pinfo, root)
	sent_length = nil
	return n
end
DissectorTable.get("ip.proto"):add(17, trimmed_udp)

DissectorTable.get("ethertype"):add(LINK_CONTROL, control)
DissectorTable.get("ethertype"):add(MAC_CONTROL, control)
register_postdissector(link)

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
