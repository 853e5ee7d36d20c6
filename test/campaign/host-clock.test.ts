/** What a worker logs is compared with what others log, whatever clock it is shown itself. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { rateEnv } from '../../campaign/chaos/faketime.ts'
import {
  bootAheadUs,
  hostClock,
  monotonicUs,
  processStartMs,
} from '../../campaign/chaos/host-clock.ts'
import { ROOT } from '../../campaign/part.ts'

const COMPILED = path.join(ROOT, 'dist-dev', 'campaign', 'chaos', 'host-clock.js')
/** Prints its own time and that of the host, at each line that it is sent. */
const CHILD = `
import { hostClock, monotonicUs } from ${JSON.stringify(COMPILED)}
const nowUs = hostClock(JSON.parse(process.argv[1]))
process.stdin.on('data', () => console.log(monotonicUs() + ' ' + nowUs()))
console.log('ready')
`

it('the time of the host is known to a process whose clocks run 5 % fast', async () => {
  const order = JSON.stringify({ rate: 1.05, bootAheadUs: bootAheadUs() })
  const env = { ...process.env, ...rateEnv(1.05) }
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD, order], { env })
  onTestFinished(() => void child.kill('SIGKILL'))
  const line = async (): Promise<string> =>
    String(((await once(child.stdout, 'data')) as [Buffer])[0])
  await line()
  const ask = async (): Promise<{ ownUs: number; hostUs: number }> => {
    const fromUs = monotonicUs()
    child.stdin.write('\n')
    const [ownUs = 0, hostUs = 0] = (await line()).split(' ').map(Number)
    // It looked between the question and the answer. A thousandth of a second is what the edge of a hundredth may be off.
    expect(hostUs).toBeGreaterThan(fromUs - 1_000)
    expect(hostUs).toBeLessThan(monotonicUs() + 1_000)
    return { ownUs, hostUs }
  }
  const first = await ask()
  await sleep(500)
  const second = await ask()
  const rate = (second.ownUs - first.ownUs) / (second.hostUs - first.hostUs)
  expect(rate).toBeGreaterThan(1.04)
  expect(rate).toBeLessThan(1.06)
})

it('the time of the host is the monotonic clock where nothing is changed', () => {
  const nowUs = hostClock({ rate: 1, bootAheadUs: bootAheadUs() })
  const [fromUs, readUs, untilUs] = [monotonicUs(), nowUs(), monotonicUs()]
  expect(readUs).toBeGreaterThan(fromUs - 1_000)
  expect(readUs).toBeLessThan(untilUs + 1_000)
})

it('a process began when it was started', () => {
  const fromMs = Date.now()
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  const untilMs = Date.now()
  onTestFinished(() => void child.kill('SIGKILL'))
  const beganMs = processStartMs(child.pid ?? -1)
  // Both that and the present are known to a hundredth of a second.
  expect(beganMs).toBeGreaterThan(fromMs - 50)
  expect(beganMs).toBeLessThan(untilMs + 50)
})
