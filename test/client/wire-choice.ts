/** What is between a client of the suite and its service: JSON, unless a file that runs the suite once more chooses another. */
import type { LeaseApi } from '../../src/service/lease-api.ts'
import type { LeaseService } from '../../src/service/lease-service.ts'
import type { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { overJson } from './json-wire.ts'

export type Wire = (service: LeaseService, runtime: FakeRuntime) => LeaseApi

let chosen: Wire = (service) => overJson(service)

/** To be called before the files of the suite are loaded. */
export function chooseWire(wire: Wire): void {
  chosen = wire
}

export const overWire: Wire = (service, runtime) => chosen(service, runtime)
