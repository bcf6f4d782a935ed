#include "textflag.h"

// The weights of 32 bytes in the sum of sums: each counts once for itself and once for
// each byte after it.
DATA weights<>+0(SB)/8, $0x191a1b1c1d1e1f20
DATA weights<>+8(SB)/8, $0x1112131415161718
DATA weights<>+16(SB)/8, $0x090a0b0c0d0e0f10
DATA weights<>+24(SB)/8, $0x0102030405060708
GLOBL weights<>(SB), RODATA|NOPTR, $32

// ADD8 adds up the eight lanes of y, whose lower half is x.
#define ADD8(y, x, result) \
	VEXTRACTI128 $1, y, X3; \
	VPADDD X3, x, x; \
	VPSHUFD $0x4e, x, X3; \
	VPADDD X3, x, x; \
	VPSHUFD $0xb1, x, X3; \
	VPADDD X3, x, x; \
	VMOVD x, result

// func adlerSums(p []byte) (sum, before, weighted uint32)
TEXT ·adlerSums(SB), NOSPLIT, $0-36
	MOVQ p_base+0(FP), SI
	MOVQ p_len+8(FP), CX
	VPXOR Y0, Y0, Y0 // sum
	VPXOR Y1, Y1, Y1 // before
	VPXOR Y2, Y2, Y2 // weighted
	VPXOR Y5, Y5, Y5 // zero
	VMOVDQU weights<>(SB), Y6
	VPCMPEQW Y7, Y7, Y7
	VPSRLW $15, Y7, Y7 // 1 in each word

loop:
	VMOVDQU (SI), Y4
	VPADDD Y0, Y1, Y1
	VPSADBW Y5, Y4, Y3
	VPADDD Y3, Y0, Y0
	VPMADDUBSW Y6, Y4, Y4
	VPMADDWD Y7, Y4, Y4
	VPADDD Y4, Y2, Y2
	ADDQ $32, SI
	SUBQ $32, CX
	JNZ loop

	ADD8(Y0, X0, AX)
	ADD8(Y1, X1, BX)
	ADD8(Y2, X2, DX)
	VZEROUPPER
	MOVL AX, sum+24(FP)
	MOVL BX, before+28(FP)
	MOVL DX, weighted+32(FP)
	RET
