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
