// Package amo executes the atomic operations of UET on bytes of memory: every operator and datatype of uet-wire.md 11.2 and
// 11.3, with the checks and codes of uet-pds-ses.md 16.3. It knows neither packets nor memory regions, takes no lock and
// allocates nothing: whoever calls it owns the memory meanwhile, and that is what makes the operation atomic.
//
// Memory, operands and results are little-endian arrays of elements. What a type may do follows libfabric (fi_atomic(3)):
//
//	                          INT8…UINT128   FLOAT DOUBLE      FLOAT_COMPLEX    LONG_DOUBLE_
//	                                         LONG_DOUBLE       DOUBLE_COMPLEX   COMPLEX
//	                                         BF16 FP16
//	MIN MAX                   yes            yes               -                -
//	SUM DIFF PROD             yes            yes               yes              yes
//	LOR LAND LXOR             yes            yes               yes              yes
//	BOR BAND BXOR MSWAP       yes            -                 -                -
//	READ WRITE INVAL          yes            yes               yes              yes
//	CSWAP CSWAP_NE            yes            yes               yes              - (32 bytes do not fit the extension)
//	CSWAP_LE LT GE GT         yes            yes               -                -
//
// With t for the element of the target, o for the operand and c for the compare value:
//
//   - MIN, MAX: t becomes o where o is smaller, greater. SUM t+o, DIFF t-o, PROD t*o. The logical operators give 1 or 0 (1+0i
//     in complex types); an element is true unless all of it compares equal to zero, so NaN is true and -0 is not.
//   - CSWAP_x: t becomes o where "c x t" holds, as in libfabric: CSWAP_LT swaps where c < t. Numbers are compared, not bits: -0
//     equals 0, NaN differs from everything. MSWAP: (o AND c) OR (t AND NOT c).
//   - INVAL drops a cached copy; nothing is cached here, so it changes nothing.
//   - Integers wrap, signed ones in two's complement.
//   - Floating point is IEEE 754 with round to nearest, ties to even, done in software once for all five formats, so that
//     every machine gives the same bits and the exceptions are known. Denormals are kept. A NaN result is the positive quiet
//     NaN without payload. MIN and MAX of equal elements and of NaN leave t alone.
//   - PROD of complex numbers is (ac-bd)+(ad+bc)i, each of its six steps rounded to the type. What C recovers of infinities
//     (its annex G) is not recovered.
//   - LONG_DOUBLE is the 80-bit format of x87 in 16 bytes, rounded to its 64 bits of precision. The 6 bytes behind are taken
//     as they come by READ, WRITE, MIN, MAX and CSWAP and become 0 in computed results. Encodings that x87 refuses (integer bit missing)
//     are taken as NaN.
package amo
