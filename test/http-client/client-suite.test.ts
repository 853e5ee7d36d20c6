/** The suite of the client once more, over a real server. */
import { chooseWire } from '../client/wire-choice.ts'
import { overHttp } from './http-wire.ts'

chooseWire(overHttp)

for (const name of [
  'waiting',
  'lease-handle',
  'holder-defects',
  'store-away',
  'transfer',
  'upgrade',
  'revoking',
  'sharing',
  'delegation',
  'acquire-all',
  'deadlock',
  'lost-given-back',
  'waiting-defects',
  'tenure-client',
  'advance',
  'tombstones',
  'max-hold',
  'lease-renewer',
]) {
  await import(`../client/${name}.test.ts`)
}
