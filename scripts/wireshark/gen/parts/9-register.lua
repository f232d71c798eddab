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
