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
