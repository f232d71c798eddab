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
