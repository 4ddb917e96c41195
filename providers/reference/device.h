/* The objects of the reference provider. */
#ifndef TENON_REFERENCE_DEVICE_H
#define TENON_REFERENCE_DEVICE_H

#include <tenon/provider.h>

struct tenon_provider {
    const tenon_services *services; /* the host's, valid until close */
};

struct tenon_device {
    tenon_provider *provider;
};

#endif
