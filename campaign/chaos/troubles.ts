/**
 * What goes wrong in a run. Each trouble begins, lasts for a while and is over when its promise is fulfilled. Several may be
 * under way at the same time where they are about different things.
 */
import { execFile, spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Random } from '../../sim/random.ts'
import type { Proxy } from '../../test/servers/proxy.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import type { Crew } from './crew.ts'
import type { FaketimeFile } from './faketime.ts'
import type { Stage } from './stage.ts'

export interface Scene {
  readonly crew: Crew
  readonly stage: Stage
  readonly random: Random
  readonly ttlMs: number
  readonly directory: string
  /** The wall clock of the workers, where it can be set. */
  readonly workerClock: FaketimeFile | null
}

export interface Trouble {
  /** As it is counted. */
  readonly name: string
  act(scene: Scene): Promise<void>
}

const run = promisify(execFile)

function trouble(name: string, act: Trouble['act']): Trouble {
  return { name, act }
}

function beyondTtl({ random, ttlMs }: Scene): number {
  return ttlMs * (1.2 + random.fraction())
}

function serverOf({ stage }: Scene): TestServer {
  if (stage.server === null) throw new Error('the stage has no server')
  return stage.server
}

function anyProxy({ stage, random }: Scene): Proxy {
  return random.pick(stage.proxies)
}

export const KILLED = trouble('workers killed', async ({ crew }) => crew.kill())

export const STOPPED = trouble('workers stopped beyond their TTL', async (scene) => {
  await scene.crew.stop(beyondTtl(scene))
})

export const SERVER_KILLED = trouble('servers killed', async (scene) => {
  await serverOf(scene).kill()
  await sleep(scene.random.between(0, scene.ttlMs))
  await serverOf(scene).restart()
})

export const SERVER_STOPPED = trouble('servers stopped', async (scene) => {
  await serverOf(scene).pause()
  await sleep(beyondTtl(scene))
  await serverOf(scene).resume()
})

/** PostgreSQL ends in order only when its clients have left: they are cut off, and refused meanwhile. */
export const SERVER_RESTARTED = trouble('servers restarted', async (scene) => {
  for (const proxy of scene.stage.proxies) proxy.refuse()
  await serverOf(scene).restart()
  for (const proxy of scene.stage.proxies) proxy.clear()
})

export const CUT = trouble('connections cut', async (scene) => anyProxy(scene).cut())

export const SLOW = trouble('calls delayed', async (scene) => {
  const proxy = anyProxy(scene)
  proxy.delay(scene.random.between(5, scene.ttlMs / 2))
  await sleep(scene.random.between(100, 600))
  proxy.clear()
})

/** The server does what it is asked; its reply goes nowhere, and the connection ends or falls silent for a while. */
export const REPLY_LOST = trouble('replies lost', async (scene) => {
  const proxy = anyProxy(scene)
  const isSilent = scene.random.chance(0.3)
  const lost = proxy.loseReply({ then: isSilent ? 'silence' : 'cut' })
  await Promise.race([lost, sleep(1_000)])
  proxy.clear()
  if (!isSilent) return
  await sleep(beyondTtl(scene))
  proxy.cut()
})

export const SILENCE = trouble('silences of the network', async (scene) => {
  const proxy = anyProxy(scene)
  proxy.blackHole()
  await sleep(beyondTtl(scene))
  proxy.clear()
  proxy.cut()
})

export const REPLY_HALVED = trouble('replies cut in the middle', async (scene) => {
  const proxy = anyProxy(scene)
  await Promise.race([proxy.halveReply(), sleep(1_000)])
  proxy.clear()
})

/** The client is cut off and sends its call again; then the server hears the first one, on the old connection. */
export const CALL_LATE = trouble('calls delivered late', async (scene) => {
  const proxy = anyProxy(scene)
  const deliver = await Promise.race([proxy.holdCall(), sleep(1_000, null)])
  proxy.clear()
  if (deliver === null) return
  await sleep(scene.random.between(0, 2 * scene.ttlMs))
  await Promise.race([deliver(), sleep(1_000)])
})

/** Packets are lost in one direction; neither end is told. */
export const ONE_WAY = trouble('one-way partitions', async (scene) => {
  const direction = scene.random.pick(['requests', 'replies'] as const)
  scene.stage.link?.lose(direction)
  await sleep(beyondTtl(scene))
  scene.stage.link?.heal(direction)
})

export const DUPLICATED = trouble('spells of duplicated calls', async ({ stage, random }) => {
  for (const duplicator of stage.duplicators ?? []) duplicator.isDuplicating = true
  await sleep(random.between(300, 2_000))
  for (const duplicator of stage.duplicators ?? []) duplicator.isDuplicating = false
})

export const FAILED_OVER = trouble('failovers', async ({ stage }) => stage.failOver?.())

export const SLOTS_MOVED = trouble('slots moved', async ({ stage }) => stage.moveSlots?.())

const HOUR_MS = 3_600_000
const TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS
const STEPS_MS = [1_000, -1_000, HOUR_MS, -HOUR_MS, TEN_YEARS_MS, -TEN_YEARS_MS]

/** Back again after a while: what a clock said for a moment must not stay. */
export const WORKER_CLOCK_SET = trouble(
  'clocks of workers set',
  async ({ workerClock, random }) => {
    const ms = random.pick(STEPS_MS)
    workerClock?.step(ms)
    await sleep(random.between(100, 800))
    workerClock?.step(-ms)
  },
)

/** Fences are wall times in microseconds, and those of the year 2255 are beyond 2^53. */
const AHEAD_MS_MAX = 15 * TEN_YEARS_MS

function clockOf({ stage }: Scene): FaketimeFile {
  if (stage.serverClock === undefined) throw new Error('the clock of the stage cannot be set')
  return stage.serverClock
}

/**
 * Where the clock goes back by more than five seconds, the store answers nothing until the clock has caught up: so each
 * step back is taken back, and what was set forward stays.
 */
export const SERVER_CLOCK_SET = trouble('clocks of servers set', async (scene) => {
  const clock = clockOf(scene)
  const ms = scene.random.pick(STEPS_MS.filter((step) => clock.offsetMs + step <= AHEAD_MS_MAX))
  clock.step(ms)
  await sleep(scene.random.between(100, 800))
  if (ms < 0) clock.step(-ms)
})

export const SERVER_CLOCK_RATE = trouble('clocks of servers run 5 % wrong', async (scene) => {
  const clock = clockOf(scene)
  const { pid } = serverOf(scene)
  if (pid === null) throw new Error('the server does not run')
  clock.run(scene.random.pick([0.95, 1.05]), pid)
  await sleep(scene.random.between(300, 2_000))
  clock.run(1, pid)
})

/** Lets calls of the system fail in one worker, by strace, for a while. */
function failing(name: string, calls: string, error: string): Trouble {
  return trouble(name, async ({ crew, random }) => {
    const { pid } = crew.anyone()
    const inject = `inject=${calls}:error=${error}:when=${random.between(1, 5)}+${random.between(1, 4)}`
    const options = [
      '-qq',
      '-o',
      '/dev/null',
      '-e',
      `trace=${calls}`,
      '-e',
      inject,
      '-p',
      String(pid),
    ]
    const tracer = spawn('strace', options, { stdio: 'ignore' })
    const ended = new Promise((resolve) => tracer.once('exit', resolve))
    await sleep(random.between(100, 400))
    tracer.kill('SIGINT')
    await ended
  })
}

export const SYNC_FAILS = failing('failing fsyncs', 'fsync,fdatasync', 'EIO')
export const READ_ONLY = failing('read-only disks', 'pwrite64', 'EROFS')

/** The file system of the store, which is a small one of its own, has no room left for a while. */
export const DISK_FULL = trouble('full disks', async ({ directory, random }) => {
  const file = path.join(directory, 'disk', 'filler')
  try {
    const chunk = Buffer.alloc(1 << 20)
    for (;;) fs.appendFileSync(file, chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
  await sleep(random.between(100, 500))
  fs.rmSync(file, { force: true })
})

/** A worker that wants another descriptor gets none for a while. */
export const NO_DESCRIPTORS = trouble('workers without descriptors', async ({ crew, random }) => {
  const { pid } = crew.anyoneAtWork()
  const limits = await limit(pid, '--nofile')
  await run('prlimit', ['--pid', String(pid), `--nofile=8:${limits.hard}`])
  await sleep(random.between(100, 500))
  await run('prlimit', ['--pid', String(pid), `--nofile=${limits.soft}:${limits.hard}`]).catch(
    ignoreEnded,
  )
})

/** A worker that wants more memory gets none, and dies of it sooner or later; then it is killed. */
export const NO_MEMORY = trouble('workers without memory', async ({ crew, random }) => {
  const worker = crew.anyone()
  worker.isDoomed = true
  await run('prlimit', ['--pid', String(worker.pid), '--as=1000000:1000000']).catch(ignoreEnded)
  await sleep(random.between(100, 600))
  crew.kill(worker)
})

async function limit(pid: number, which: string): Promise<{ soft: string; hard: string }> {
  const asked = ['--pid', String(pid), which, '--noheadings', '--raw', '--output', 'SOFT,HARD']
  const { stdout } = await run('prlimit', asked)
  const [soft = '1024', hard = '1024'] = stdout.trim().split(/\s+/)
  return { soft, hard }
}

/** The worker has been killed meanwhile by another trouble. */
function ignoreEnded(error: unknown): void {
  if (!/No such process/.test(String(error))) throw error
}
