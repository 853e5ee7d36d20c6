/** Trouble for the workers of the chaos, made by their server or by their network. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Scene } from '../processes/chaos.ts'
import type { Proxy } from '../servers/proxy.ts'
import type { TestServer } from '../servers/test-server.ts'

export interface Stage {
  readonly server: TestServer
  readonly proxy: Proxy
}

export interface Trouble {
  /** How long it may take until everybody works again. */
  readonly calmMs: number
  /** Makes it, and tells how often something went wrong. */
  make(stage: Stage, scene: Scene): Promise<number>
}

/** SIGKILL, a moment without a server, and the same data on the same port. */
async function makeServerDie({ server }: Stage, scene: Scene): Promise<number> {
  let count = 0
  for (; count === 0 || scene.leftMs > 1_500; count += 1) {
    await sleep(500 + Math.random() * 500)
    await server.kill()
    await sleep(Math.random() * 600)
    await server.restart()
  }
  return count
}

/** SIGSTOP for longer than the workers' leases live. */
async function makeServerStop({ server }: Stage, scene: Scene): Promise<number> {
  let count = 0
  for (; count === 0 || scene.leftMs > 1_500; count += 1) {
    await sleep(500 + Math.random() * 500)
    await server.pause()
    await sleep(200 + Math.random() * 600)
    await server.resume()
  }
  return count
}

/** Connections cut, refused, delayed and swallowed, in turns. */
async function makeNetworkFail({ proxy }: Stage, scene: Scene): Promise<number> {
  const faults = [
    () => proxy.cut(),
    () => proxy.blackHole(),
    () => proxy.refuse(),
    () => proxy.delay(150),
    () => void proxy.loseReply(),
  ]
  let count = 0
  for (; count < faults.length || scene.leftMs > 1_000; count += 1) {
    await sleep(200 + Math.random() * 200)
    faults[count % faults.length]?.()
    await sleep(100 + Math.random() * 500)
    proxy.clear()
  }
  return count
}

export const TROUBLES: readonly (readonly [name: string, trouble: Trouble])[] = [
  ['is killed and restarted', { calmMs: 2_500, make: makeServerDie }],
  ['is stopped and resumed', { calmMs: 1_500, make: makeServerStop }],
  // Whoever waits for an answer on a connection that has gone silent gives it up after 5 s.
  ['is reached by a bad network', { calmMs: 8_000, make: makeNetworkFail }],
]
