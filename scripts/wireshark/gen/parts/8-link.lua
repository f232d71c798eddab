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
