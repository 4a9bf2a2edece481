// CUDA's keywords for a host compiler. Stands in for the header of that name in the toolkit.
#pragma once
#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __constant__ static
#define __managed__
#define __forceinline__ inline
#define __no_return__ __attribute__((noreturn))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __specialization_static static
#define __nv_pure__
#define __grid_constant__
#define __CUDA_HOSTDEVICE__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __launch_bounds__(...)
