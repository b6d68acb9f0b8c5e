/*
 * Every scalar instruction against plain C, on special and random operands.
 */
#include "emu_run.h"

#include <fenv.h>
#include <math.h>

enum { CASES = 1024 };

struct row {
    const char *text;           /* on a16 a32 a64, likewise b, c; result in d16 d32 d64 or p */
    char result;                /* h 16 bits, w 32, d 64, p predicate */
    char operands;              /* i integers, n small counts in b and c, f f32, g f64, t f16 pairs,
                                   u bf16 pairs */
    uint64_t (*expect)(uint64_t a, uint64_t b, uint64_t c);
};

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint16_t u16;
typedef int16_t s16;
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

/* ---- helpers of the reference ---- */

static float f32(u64 v)
{
    const u32 w = (u32)v;
    float f;

    memcpy(&f, &w, 4);
    return f;
}

static u64 w32(float f)
{
    u32 w;

    memcpy(&w, &f, 4);
    return f == f ? w : 0x7fffffff;
}

static double f64(u64 v)
{
    double d;

    memcpy(&d, &v, 8);
    return d;
}

static u64 w64(double d)
{
    u64 v;

    memcpy(&v, &d, 8);
    return v;
}

static u64 ftz(u64 v)
{
    return v & 0x7f800000 ? (u32)v : v & 0x80000000;
}

static u64 sat(u64 v)
{
    const float f = f32(v);

    return f >= 1 ? 0x3f800000 : f > 0 ? (u32)v : 0;
}

/* One operation with the host's own directed rounding. */
static u64 directed(int mode, char op, float a, float b, float c)
{
    volatile float x = a, y = b, z = c, r;

    fesetround(mode);
    switch (op) {
    case '+': r = x + y; break;
    case '-': r = x - y; break;
    case '*': r = x * y; break;
    case '/': r = x / y; break;
    case 'r': r = sqrtf(x); break;
    default: r = fmaf(x, y, z); break;
    }
    fesetround(FE_TONEAREST);
    return w32(r);
}

static u64 directed64(int mode, char op, double a, double b, double c)
{
    volatile double x = a, y = b, z = c, r;

    fesetround(mode);
    switch (op) {
    case '+': r = x + y; break;
    case '*': r = x * y; break;
    case '/': r = x / y; break;
    default: r = fma(x, y, z); break;
    }
    fesetround(FE_TONEAREST);
    return w64(r);
}

static double half(u64 v)
{
    const unsigned e = v >> 10 & 31, m = v & 1023;
    const double s = v & 0x8000 ? -1 : 1;

    if (e == 31)
        return m ? NAN : s * INFINITY;
    return e ? s * ldexp(1024 + m, (int)e - 25) : s * ldexp(m, -24);
}

/* To f16 by search among neighbours: slow and plain. */
static u64 to_half(long double v)
{
    if (v != v)
        return 0x7fff;
    const u64 s = signbit(v) ? 0x8000 : 0;
    const long double x = fabsl(v);
    if (x >= 65520)
        return s | 0x7c00;
    u64 low = 0, high = 0x7bff;
    while (low < high) {
        const u64 mid = (low + high + 1) / 2;
        if (half(mid) <= x)
            low = mid;
        else
            high = mid - 1;
    }
    const long double below = half(low);
    const long double above = low == 0x7bff ? 65536.0L : half(low + 1);
    if (x - below > above - x || (x - below == above - x && low & 1))
        low++;
    return s | low;
}

static double brain(u64 v)
{
    return f32((v & 0xffff) << 16);
}

static u64 to_brain(long double v)
{
    if (v != v)
        return 0x7fff;
    const u64 s = signbit(v) ? 0x8000 : 0;
    const long double x = fabsl(v);
    u64 low = 0, high = 0x7f80;
    while (low < high) {
        const u64 mid = (low + high + 1) / 2;
        if ((mid == 0x7f80 ? 0x1p128L : (long double)brain(mid)) <= x)
            low = mid;
        else
            high = mid - 1;
    }
    if (low >= 0x7f80)
        return s | 0x7f80;
    const long double below = brain(low);
    const long double above = low + 1 == 0x7f80 ? 0x1p128L : (long double)brain(low + 1);
    if (x - below > above - x || (x - below == above - x && low & 1))
        low++;
    return s | low;
}

static u64 pair(u64 low, u64 high)
{
    return low | high << 16;
}

static s64 clamp(s128 v, s64 least, s64 most)
{
    return v < least ? least : v > most ? most : (s64)v;
}


#define ROWS(X) \
    X(add_s32, "add.s32 d32, a32, b32", 'w', 'i', (u32)a + (u32)b) \
    X(add_s64, "add.s64 d64, a64, b64", 'd', 'i', a + b) \
    X(add_u16, "add.u16 d16, a16, b16", 'h', 'i', (u16)(a + b)) \
    X(add_sat, "add.sat.s32 d32, a32, b32", 'w', 'i', \
      (u32)clamp((s64)(s32)a + (s32)b, INT32_MIN, INT32_MAX)) \
    X(add_imm, "add.s32 d32, a32, -7", 'w', 'i', (u32)a - 7) \
    X(add_x2, "add.u16x2 d32, a32, b32", 'w', 'i', \
      pair((u16)(a + b), (u16)((a >> 16) + (b >> 16)))) \
    X(carry32, "add.cc.u32 e32, a32, b32; addc.u32 d32, c32, 5", 'w', 'i', \
      (u32)c + 5 + (u32)(((u64)(u32)a + (u32)b) >> 32)) \
    X(carry64, "add.cc.u64 e64, a64, b64; addc.cc.u64 e64, c64, b64; addc.u64 d64, 0, 0", 'd', \
      'i', ((u128)c + b + (u64)(((u128)a + b) >> 64)) >> 64) \
    X(borrow, "sub.cc.u32 e32, a32, b32; subc.u32 d32, c32, 1", 'w', 'i', \
      (u32)c - 1 - ((u32)a < (u32)b)) \
    X(mad_cc, "mad.lo.cc.u32 e32, a32, b32, c32; madc.hi.u32 d32, a32, b32, 0", 'w', 'i', \
      (u32)(((u64)(u32)a * (u32)b + (u32)c) >> 32)) \
    X(sub_s16, "sub.s16 d16, a16, b16", 'h', 'i', (u16)(a - b)) \
    X(sub_sat, "sub.sat.s32 d32, a32, b32", 'w', 'i', \
      (u32)clamp((s64)(s32)a - (s32)b, INT32_MIN, INT32_MAX)) \
    X(mul_lo, "mul.lo.s32 d32, a32, b32", 'w', 'i', (u32)a * (u32)b) \
    X(mul_lo64, "mul.lo.s64 d64, a64, b64", 'd', 'i', a * b) \
    X(mul_lo16, "mul.lo.s16 d16, a16, b16", 'h', 'i', (u16)((u32)(u16)a * (u16)b)) \
    X(mul_hi_s32, "mul.hi.s32 d32, a32, b32", 'w', 'i', \
      (u32)((u64)((s64)(s32)a * (s32)b) >> 32)) \
    X(mul_hi_u32, "mul.hi.u32 d32, a32, b32", 'w', 'i', (u64)(u32)a * (u32)b >> 32) \
    X(mul_hi_s16, "mul.hi.s16 d16, a16, b16", 'h', 'i', (u16)(((s32)(s16)a * (s16)b) >> 16)) \
    X(mul_hi_u64, "mul.hi.u64 d64, a64, b64", 'd', 'i', ((u128)a * b) >> 64) \
    X(mul_hi_s64, "mul.hi.s64 d64, a64, b64", 'd', 'i', ((s128)(s64)a * (s64)b) >> 64) \
    X(mul_wide_s16, "mul.wide.s16 d32, a16, b16", 'w', 'i', (u32)((s32)(s16)a * (s16)b)) \
    X(mul_wide_u16, "mul.wide.u16 d32, a16, b16", 'w', 'i', (u32)(u16)a * (u16)b) \
    X(mul_wide_s32, "mul.wide.s32 d64, a32, b32", 'd', 'i', (s64)(s32)a * (s32)b) \
    X(mul_wide_u32, "mul.wide.u32 d64, a32, b32", 'd', 'i', (u64)(u32)a * (u32)b) \
    X(mad_lo, "mad.lo.s32 d32, a32, b32, c32", 'w', 'i', (u32)a * (u32)b + (u32)c) \
    X(mad_hi, "mad.hi.u32 d32, a32, b32, c32", 'w', 'i', \
      (u32)((u64)(u32)a * (u32)b >> 32) + (u32)c) \
    X(mad_wide, "mad.wide.s32 d64, a32, b32, c64", 'd', 'i', (u64)((s64)(s32)a * (s32)b) + c) \
    X(mad_sat, "mad.hi.sat.s32 d32, a32, b32, c32", 'w', 'i', \
      (u32)clamp((s64)(s32)((s64)(s32)a * (s32)b >> 32) + (s32)c, INT32_MIN, INT32_MAX)) \
    X(mul24, "mul24.lo.s32 d32, a32, b32", 'w', 'i', \
      (u32)((s64)((s32)((u32)a << 8) >> 8) * ((s32)((u32)b << 8) >> 8))) \
    X(mul24_hi, "mul24.hi.u32 d32, a32, b32", 'w', 'i', \
      (u32)((a & 0xffffff) * (b & 0xffffff) >> 16)) \
    X(div_s32, "div.s32 d32, a32, b32", 'w', 'i', \
      (s32)b ? (s32)b == -1 ? 0 - (u32)a : (u32)((s32)a / (s32)b) : UINT32_MAX) \
    X(div_u32, "div.u32 d32, a32, b32", 'w', 'i', (u32)b ? (u32)a / (u32)b : UINT32_MAX) \
    X(rem_s32, "rem.s32 d32, a32, b32", 'w', 'i', \
      (s32)b ? (s32)b == -1 ? 0 : (u32)((s32)a % (s32)b) : UINT32_MAX) \
    X(div_u64, "div.u64 d64, a64, b64", 'd', 'i', b ? a / b : UINT64_MAX) \
    X(abs_s32, "abs.s32 d32, a32", 'w', 'i', (s32)a < 0 ? 0 - (u32)a : (u32)a) \
    X(neg_s64, "neg.s64 d64, a64", 'd', 'i', 0 - a) \
    X(min_s32, "min.s32 d32, a32, b32", 'w', 'i', (u32)((s32)a < (s32)b ? a : b)) \
    X(max_u64, "max.u64 d64, a64, b64", 'd', 'i', a > b ? a : b) \
    X(min_s16, "min.s16 d16, a16, b16", 'h', 'i', (u16)((s16)a < (s16)b ? a : b)) \
    X(max_relu, "max.relu.s32 d32, a32, b32", 'w', 'i', \
      (u32)clamp((s32)a > (s32)b ? (s32)a : (s32)b, 0, INT32_MAX)) \
    X(sad, "sad.s32 d32, a32, b32, c32", 'w', 'i', \
      (u32)c + ((s32)a < (s32)b ? (u32)b - (u32)a : (u32)a - (u32)b)) \
    X(dp4a, "dp4a.s32.u32 d32, a32, b32, c32", 'w', 'i', \
      (u32)c + dot(a, b, 0) + dot(a, b, 8) + dot(a, b, 16) + dot(a, b, 24)) \
    X(and_b32, "and.b32 d32, a32, b32", 'w', 'i', (u32)(a & b)) \
    X(xor_b64, "xor.b64 d64, a64, b64", 'd', 'i', a ^ b) \
    X(not_b16, "not.b16 d16, a16", 'h', 'i', (u16)~a) \
    X(cnot, "cnot.b32 d32, a32", 'w', 'i', !(u32)a) \
    X(lop3, "lop3.b32 d32, a32, b32, c32, 0xca", 'w', 'i', (u32)((a & b) | (~a & c))) \
    X(shl_b32, "shl.b32 d32, a32, b32", 'w', 'n', (u32)b < 32 ? (u32)a << b : 0) \
    X(shl_b16, "shl.b16 d16, a16, b32", 'h', 'n', \
      (u32)b < 16 ? (u16)((u32)(u16)a << b) : 0) \
    X(shr_u32, "shr.u32 d32, a32, b32", 'w', 'n', (u32)b < 32 ? (u32)a >> b : 0) \
    X(shr_s32, "shr.s32 d32, a32, b32", 'w', 'n', (u32)((s32)a >> ((u32)b < 32 ? b : 31))) \
    X(shr_s16, "shr.s16 d16, a16, b32", 'h', 'n', (u16)((s16)a >> ((u32)b < 16 ? b : 15))) \
    X(shr_s64, "shr.s64 d64, a64, b32", 'd', 'n', (s64)a >> ((u32)b < 64 ? b : 63)) \
    X(shl_b64, "shl.b64 d64, a64, b32", 'd', 'n', (u32)b < 64 ? a << b : 0) \
    X(shf_l, "shf.l.clamp.b32 d32, a32, b32, c32", 'w', 'n', \
      (u32)(((b & 0xffffffff) << 32 | (u32)a) >> (32 - (c < 32 ? c : 32)))) \
    X(shf_r, "shf.r.wrap.b32 d32, a32, b32, c32", 'w', 'n', \
      (u32)(((b & 0xffffffff) << 32 | (u32)a) >> (c & 31))) \
    X(popc, "popc.b64 d32, a64", 'w', 'i', __builtin_popcountll(a)) \
    X(clz, "clz.b32 d32, a32", 'w', 'n', (u32)a ? __builtin_clz((u32)a) : 32) \
    X(bfind, "bfind.s32 d32, a32", 'w', 'i', highest((s32)a < 0 ? ~(u32)a : (u32)a)) \
    X(brev, "brev.b32 d32, a32", 'w', 'i', bits((u32)a, 31, -1, 32)) \
    X(bfe_u32, "bfe.u32 d32, a32, b32, c32", 'w', 'n', field((u32)a, b & 255, c & 255, false)) \
    X(bfe_s32, "bfe.s32 d32, a32, b32, c32", 'w', 'n', field((u32)a, b & 255, c & 255, true)) \
    X(bfi, "bfi.b32 d32, a32, b32, c32, 7", 'w', 'n', put_field((u32)a, (u32)b, c & 255, 7)) \
    X(prmt, "prmt.b32 d32, a32, b32, 0x6d10", 'w', 'i', \
      (u32)((a & 0xffff) | (b >> 15 & 1 ? 0xff0000 : 0) | ((b >> 16 & 0xff) << 24))) \
    X(selp, "setp.lt.s32 p, a32, b32; selp.b32 d32, a32, c32, p", 'w', 'i', \
      (u32)((s32)a < (s32)b ? a : c)) \
    X(slct, "slct.u32.s32 d32, a32, b32, c32", 'w', 'i', (u32)((s32)c >= 0 ? a : b)) \
    X(setp_and, "setp.ne.s32 q, c32, 0; setp.ge.and.u32 p, a32, b32, q", 'p', 'i', \
      (u32)a >= (u32)b && (u32)c) \
    X(setp_pair, "setp.lt.s64 q|p, a64, b64", 'p', 'i', (s64)a >= (s64)b) \
    X(setp_hi, "setp.hi.u32 p, a32, b32", 'p', 'i', (u32)a > (u32)b) \
    X(setp_s16, "setp.lt.s16 p, a16, b16", 'p', 'i', (s16)a < (s16)b) \
    X(set_s32, "set.eq.u32.s32 d32, a32, 0", 'w', 'n', (u32)a ? 0 : UINT32_MAX) \
    X(mov_pack, "mov.b64 d64, {a32, b32}", 'd', 'i', (u32)a | b << 32) \
    X(mov_unpack, "mov.b32 {e16, d16}, a32", 'h', 'i', (u16)(a >> 16)) \
    X(cvt_s8, "cvt.s32.s8 d32, a32", 'w', 'i', (u32)(s32)(int8_t)a) \
    X(cvt_u8_sat, "cvt.sat.u8.s32 d32, a32", 'w', 'n', clamp((s32)a, 0, 255)) \
    X(cvt_s64, "cvt.s64.s32 d64, a32", 'd', 'i', (s64)(s32)a) \
    X(cvt_u16, "cvt.u16.u64 d16, a64", 'h', 'i', (u16)a) \
    X(cvt_pack, "cvt.pack.sat.s16.s32 d32, a32, b32", 'w', 'n', \
      pair((u16)clamp((s32)b, -32768, 32767), (u16)clamp((s32)a, -32768, 32767))) \
    X(fadd, "add.f32 d32, a32, b32", 'w', 'f', w32(f32(a) + f32(b))) \
    X(fadd_ftz, "add.ftz.f32 d32, a32, b32", 'w', 'f', ftz(w32(f32(ftz(a)) + f32(ftz(b))))) \
    X(fadd_rz, "add.rz.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_TOWARDZERO, '+', f32(a), f32(b), 0)) \
    X(fadd_rm, "add.rm.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_DOWNWARD, '+', f32(a), f32(b), 0)) \
    X(fsub_rp, "sub.rp.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_UPWARD, '-', f32(a), f32(b), 0)) \
    X(fsub_rm, "sub.rm.f32 d32, a32, a32", 'w', 'f', \
      directed(FE_DOWNWARD, '-', f32(a), f32(a), 0)) \
    X(fmul_rm, "mul.rm.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_DOWNWARD, '*', f32(a), f32(b), 0)) \
    X(fmul, "mul.f32 d32, a32, b32", 'w', 'f', w32(f32(a) * f32(b))) \
    X(fmul_sat, "mul.sat.f32 d32, a32, b32", 'w', 'f', sat(w32(f32(a) * f32(b)))) \
    X(ffma, "fma.rn.f32 d32, a32, b32, c32", 'w', 'f', w32(fmaf(f32(a), f32(b), f32(c)))) \
    X(ffma_rz, "fma.rz.f32 d32, a32, b32, c32", 'w', 'f', \
      directed(FE_TOWARDZERO, 'f', f32(a), f32(b), f32(c))) \
    X(ffma_rm, "fma.rm.f32 d32, a32, b32, c32", 'w', 'f', \
      directed(FE_DOWNWARD, 'f', f32(a), f32(b), f32(c))) \
    X(ffma_rp, "fma.rp.f32 d32, a32, b32, c32", 'w', 'f', \
      directed(FE_UPWARD, 'f', f32(a), f32(b), f32(c))) \
    X(fdiv, "div.rn.f32 d32, a32, b32", 'w', 'f', w32(f32(a) / f32(b))) \
    X(fdiv_rz, "div.rz.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_TOWARDZERO, '/', f32(a), f32(b), 0)) \
    X(fdiv_rp, "div.rp.f32 d32, a32, b32", 'w', 'f', \
      directed(FE_UPWARD, '/', f32(a), f32(b), 0)) \
    X(frcp_rm, "rcp.rm.f32 d32, a32", 'w', 'f', directed(FE_DOWNWARD, '/', 1, f32(a), 0)) \
    X(fsqrt, "sqrt.rn.f32 d32, a32", 'w', 'f', directed(FE_TONEAREST, 'r', f32(a), 0, 0)) \
    X(fsqrt_rp, "sqrt.rp.f32 d32, a32", 'w', 'f', directed(FE_UPWARD, 'r', f32(a), 0, 0)) \
    X(dadd_rz, "add.rz.f64 d64, a64, b64", 'd', 'g', \
      directed64(FE_TOWARDZERO, '+', f64(a), f64(b), 0)) \
    X(dmul_rm, "mul.rm.f64 d64, a64, b64", 'd', 'g', \
      directed64(FE_DOWNWARD, '*', f64(a), f64(b), 0)) \
    X(dfma, "fma.rn.f64 d64, a64, b64, c64", 'd', 'g', \
      directed64(FE_TONEAREST, 'f', f64(a), f64(b), f64(c))) \
    X(dfma_rp, "fma.rp.f64 d64, a64, b64, c64", 'd', 'g', \
      directed64(FE_UPWARD, 'f', f64(a), f64(b), f64(c))) \
    X(ddiv, "div.rn.f64 d64, a64, b64", 'd', 'g', \
      directed64(FE_TONEAREST, '/', f64(a), f64(b), 0)) \
    X(fmin_, "min.f32 d32, a32, b32", 'w', 'f', order32(a, b, false, false)) \
    X(fmax_, "max.f32 d32, a32, b32", 'w', 'f', order32(a, b, true, false)) \
    X(fmax_nan, "max.NaN.f32 d32, a32, b32", 'w', 'f', order32(a, b, true, true)) \
    X(fmin_xor, "min.xorsign.abs.f32 d32, a32, b32", 'w', 'f', \
      is_nan(a) && is_nan(b) ? 0x7fffffff \
      : order32(a & 0x7fffffff, b & 0x7fffffff, false, false) | ((a ^ b) & 0x80000000)) \
    X(fset, "setp.ltu.f32 p, a32, b32", 'p', 'f', !(f32(a) >= f32(b))) \
    X(fset_ne, "setp.ne.f32 p, a32, b32", 'p', 'f', f32(a) < f32(b) || f32(a) > f32(b)) \
    X(fset_num, "setp.num.f32 p, a32, b32", 'p', 'f', !is_nan(a) && !is_nan(b)) \
    X(testp, "testp.subnormal.f32 p, a32", 'p', 'f', \
      f32(a) != 0 && fabsf(f32(a)) < 0x1p-126f) \
    X(copysign_, "copysign.f32 d32, a32, b32", 'w', 'f', \
      (b & 0x7fffffff) | (a & 0x80000000)) \
    X(hadd, "add.f16 d16, a16, b16", 'h', 't', to_half((long double)half(a) + half(b))) \
    X(hmul2, "mul.f16x2 d32, a32, b32", 'w', 't', \
      pair(to_half((long double)half(a) * half(b)), \
           to_half((long double)half(a >> 16) * half(b >> 16)))) \
    X(hfma, "fma.rn.f16 d16, a16, b16, c16", 'h', 't', \
      to_half((long double)half(a) * half(b) + half(c))) \
    X(hfma_relu, "fma.rn.relu.f16 d16, a16, b16, c16", 'h', 't', \
      relu16(to_half((long double)half(a) * half(b) + half(c)))) \
    X(badd, "add.bf16 d16, a16, b16", 'h', 'u', to_brain((long double)brain(a) + brain(b))) \
    X(bmul, "mul.bf16 d16, a16, b16", 'h', 'u', to_brain((long double)brain(a) * brain(b))) \
    X(bmax2, "max.bf16x2 d32, a32, b32", 'w', 'u', \
      pair(most_brain(a, b), most_brain(a >> 16, b >> 16))) \
    X(cvt_f16, "cvt.rn.f16.f32 d16, a32", 'h', 'f', to_half(f32(a))) \
    X(cvt_bf16, "cvt.rn.bf16.f32 d16, a32", 'h', 'f', to_brain(f32(a))) \
    X(cvt_bf16x2, "cvt.rn.bf16x2.f32 d32, a32, b32", 'w', 'f', \
      pair(to_brain(f32(b)), to_brain(f32(a)))) \
    X(cvt_f32_f16, "cvt.f32.f16 d32, a16", 'w', 't', w32((float)half(a))) \
    X(cvt_s32, "cvt.rzi.s32.f32 d32, a32", 'w', 'f', \
      is_nan(a) ? 0 : (u32)clamp(whole(trunc(f32(a))), INT32_MIN, INT32_MAX)) \
    X(cvt_u32_rni, "cvt.rni.u32.f32 d32, a32", 'w', 'f', \
      is_nan(a) ? 0 : (u32)clamp(whole(rint(f32(a))), 0, UINT32_MAX)) \
    X(cvt_f32_s32, "cvt.rn.f32.s32 d32, a32", 'w', 'i', w32((float)(s32)a)) \
    X(cvt_f32_u64, "cvt.rz.f32.u64 d32, a64", 'w', 'i', toward_zero(a)) \
    X(cvt_f64_f32, "cvt.f64.f32 d64, a32", 'd', 'f', is_nan(a) ? 0 : w64(f32(a))) \
    X(cvt_f32_f64, "cvt.rn.f32.f64 d32, a64", 'w', 'g', w32((float)f64(a))) \
    X(cvt_rni, "cvt.rni.f32.f32 d32, a32", 'w', 'f', w32(rintf(f32(a)))) \
    X(cvt_floor, "cvt.rmi.f32.f32 d32, a32", 'w', 'f', w32(floorf(f32(a))))

static bool is_nan(u64 v)
{
    return f32(v) != f32(v);
}

static u32 dot(u64 a, u64 b, int shift)
{
    return (u32)((int8_t)(uint8_t)(a >> shift) * (uint8_t)(b >> shift));
}

static u32 highest(u32 v)
{
    return v ? 31u - (u32)__builtin_clz(v) : UINT32_MAX;
}

/* Bits of v from position `from` on, taken in the given step. */
static u32 bits(u32 v, int from, int step, int n)
{
    u32 r = 0;

    for (int i = 0; i < n; i++)
        r |= (v >> (from + i * step) & 1) << i;
    return r;
}

static u32 field(u32 v, u64 pos, u64 len, bool is_signed)
{
    const u64 top = pos + len - 1 < 31 ? pos + len - 1 : 31;
    u32 r = 0;

    for (u64 i = 0; i < 32; i++) {
        if (i < len && pos + i < 32)
            r |= (v >> (pos + i) & 1) << i;
        else if (is_signed && len)
            r |= (v >> top & 1) << i;
    }
    return r;
}

static u32 put_field(u32 v, u32 into, u64 pos, u64 len)
{
    for (u64 i = 0; i < len && pos + i < 32; i++)
        into = (into & ~(1u << (pos + i))) | (v >> i & 1) << (pos + i);
    return into;
}

static u64 order32(u64 a, u64 b, bool greater, bool keep_nan)
{
    if (is_nan(a) || is_nan(b))
        return keep_nan || (is_nan(a) && is_nan(b)) ? 0x7fffffff : (u32)(is_nan(a) ? b : a);
    if (f32(a) == 0 && f32(b) == 0)
        return (u32)(greater ? a & b : a | b);
    return (u32)((f32(a) > f32(b)) == greater ? a : b);
}

static u64 most_brain(u64 a, u64 b)
{
    return order32(a << 16, b << 16, true, false) >> 16;
}

static u64 relu16(u64 v)
{
    return v & 0x8000 ? 0 : v;
}

static s128 whole(double v)
{
    return v > 1e18 ? INT64_MAX : v < -1e18 ? INT64_MIN : (s64)v;
}

static u64 toward_zero(u64 a)
{
    volatile u64 v = a;

    fesetround(FE_TOWARDZERO);
    volatile float r = (float)v;
    fesetround(FE_TONEAREST);
    return w32(r);
}

#define DEFINE(name, text, result, operands, expression) \
    static u64 name(u64 a, u64 b, u64 c) \
    { \
        (void)a; \
        (void)b; \
        (void)c; \
        return (u64)(expression); \
    }
ROWS(DEFINE)
#undef DEFINE

static const struct row rows[] = {
#define ENTRY(name, text, result, operands, expression) { text, result, operands, name },
    ROWS(ENTRY)
#undef ENTRY
};

/* ---- operands ---- */

static u64 f32_operand(u64 *seed)
{
    static const u32 special[] = {
        0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff, 1,
        0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3effffff, 0x4b000001,
        0x4effffff, 0xcf000000, 0x3f000000, 0x40200000,
    };
    const u64 r = emu_random(seed);

    switch (r >> 61) {
    case 0: return special[r % (sizeof special / sizeof *special)];
    case 1: return (u32)r;
    case 2: return (r & 0x807fffff) | (r >> 32 & 3) << 23;
    default: return (r & 0x807fffff) | (u64)(120 + (r >> 32) % 16) << 23;
    }
}

static u64 operand(char kind, unsigned which, u64 *seed)
{
    static const u64 edges[] = {
        0, 1, 2, UINT64_MAX, INT64_MAX, (u64)INT64_MIN, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fff,
        0x8000, 0xffff, UINT64_C(0x8000000080000000),
    };
    enum { EDGES = sizeof edges / sizeof *edges };
    const u64 r = emu_random(seed);

    switch (kind) {
    case 'n':
        if (which)
            return r % 5 ? r % 33 : r % 300;
        return r % 3 ? r : edges[r / 3 % EDGES];
    case 'f':
        return f32_operand(seed);
    case 'g':
        switch (r % 4) {
        case 0: return w64(f32(f32_operand(seed) & 0xff7fffff));
        case 1: return (r & UINT64_C(0x800fffffffffffff)) | (u64)(993 + r / 4 % 60) << 52;
        case 2: return (r & UINT64_C(0x800fffffffffffff)) | (u64)(r / 4 % 3) << 52;
        default: return w64((double)(s64)(r >> 20));
        }
    case 't':
    case 'u':
        if (r % 3 == 0)
            return r >> 8;
        if (r % 3 == 1)
            return kind == 't' ? (r & 0x83ff83ff) | 0x38003c00 : (r & 0x807f807f) | 0x3f003f80;
        return (kind == 't' ? 0x7c008000 : 0x80007f80) ^ (r >> 8 & 0x8001);
    default:
        return r % 4 ? r >> (r >> 8 & 1 ? 0 : 40) : edges[r / 4 % EDGES];
    }
}

static void kernel(const char *instruction, char result, char *text, size_t room)
{
    snprintf(text, room, HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
        ".reg .b16 a16, b16, c16, d16, e16; .reg .b32 a32, b32, c32, d32, e32;\n"
        ".reg .b64 a64, b64, c64, d64, e64, i, o; .reg .pred p, q;\n"
        "ld.param.u64 i, [in]; ld.param.u64 o, [out];\n"
        "mov.u32 a32, %%tid.x; mul.wide.u32 a64, a32, 24; add.u64 i, i, a64;\n"
        "mul.wide.u32 a64, a32, 8; add.u64 o, o, a64;\n"
        "ld.global.u64 a64, [i]; ld.global.u64 b64, [i+8]; ld.global.u64 c64, [i+16];\n"
        "cvt.u32.u64 a32, a64; cvt.u32.u64 b32, b64; cvt.u32.u64 c32, c64;\n"
        "cvt.u16.u64 a16, a64; cvt.u16.u64 b16, b64; cvt.u16.u64 c16, c64;\n"
        "%s;\n"
        "%s\n"
        "st.global.u64 [o], d64; ret; }\n", instruction,
        result == 'h' ? "cvt.u64.u16 d64, d16;" : result == 'w' ? "cvt.u64.u32 d64, d32;"
        : result == 'p' ? "selp.u64 d64, 1, 0, p;" : "");
}

static void test_rows(void **state)
{
    static u64 in[CASES][3];
    const u64 *out;
    char text[4096];
    unsigned bad = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        u64 seed = i + 1;
        struct emu e;
        emu_open(&e, POLICY_EARLY, 1);
        kernel(row->text, row->result, text, sizeof text);
        emu_load(&e, text);
        for (unsigned k = 0; k < CASES; k++)
            for (unsigned j = 0; j < 3; j++)
                in[k][j] = operand(row->operands, j, &seed);
        const u64 from = emu_put(&e, in, sizeof in), to = emu_alloc(&e, CASES * 8);
        RUN(&e, "k", 1, CASES, from, to);
        out = emu_bytes(&e, to);
        for (unsigned k = 0; k < CASES; k++) {
            u64 want = row->expect(in[k][0], in[k][1], in[k][2]);
            if (row->result == 'w')
                want = (u32)want;
            /* A NaN in double keeps what the host makes of it. */
            const double w = f64(want), o = f64(out[k]);
            if (row->result == 'd' && (row->operands == 'g' || row->operands == 'f') &&
                (w != w || !want) && o != o)
                continue;
            if (out[k] == want)
                continue;
            print_error("%s: a %llx b %llx c %llx: expected %llx, got %llx\n", row->text,
                        (unsigned long long)in[k][0], (unsigned long long)in[k][1],
                        (unsigned long long)in[k][2], (unsigned long long)want,
                        (unsigned long long)out[k]);
            bad++;
            break;
        }
        emu_close(&e);
    }
    assert_int_equal(bad, 0);
}

/* One form of the data file: runs it on its lines and compares. */
static unsigned measured_form(const char *form, u64 (*lines)[4], unsigned count)
{
    static u64 in[64][3];
    char text[4096];
    unsigned bad = 0;
    struct emu e;

    if (!count)
        return 0;
    for (unsigned k = 0; k < count; k++)
        memcpy(in[k], lines[k], sizeof in[k]);
    emu_open(&e, POLICY_EARLY, 1);
    kernel(form + 2, form[0], text, sizeof text);
    emu_load(&e, text);
    const u64 from = emu_put(&e, in, sizeof in), to = emu_alloc(&e, sizeof in);
    RUN(&e, "k", 1, count, from, to);
    const u64 *out = emu_bytes(&e, to);
    for (unsigned k = 0; k < count; k++)
        if (out[k] != lines[k][3]) {
            print_error("%s: a %llx b %llx c %llx: an H200 gives %llx, got %llx\n", form + 2,
                        (unsigned long long)in[k][0], (unsigned long long)in[k][1],
                        (unsigned long long)in[k][2], (unsigned long long)lines[k][3],
                        (unsigned long long)out[k]);
            bad++;
        }
    emu_close(&e);
    return bad;
}

static void test_measured(void **state)
{
    FILE *file = fopen("tests/data/scalar_h200.txt", "r");
    static u64 lines[64][4];
    char form[256] = "", line[256];
    unsigned count = 0, forms = 0, bad = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long long v[4];
        if (line[0] == '=') {
            bad += measured_form(form, lines, count);
            line[strcspn(line, "\n")] = 0;
            memcpy(form, line + 2, sizeof line - 2);
            forms++;
            count = 0;
        } else if (line[0] != '#' && sscanf(line, "%llx %llx %llx %llx", v, v + 1, v + 2,
        v + 3) == 4) {
            assert_true(count < 64);
            for (unsigned i = 0; i < 4; i++)
                lines[count][i] = v[i];
            count++;
        }
    }
    bad += measured_form(form, lines, count);
    fclose(file);
    assert_true(forms > 700);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_measured),
    };

    return cmocka_run_group_tests_name("scalar instructions", tests, NULL, NULL);
}
