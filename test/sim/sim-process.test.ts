/** The simulated processes behave as real ones do where that decides whether a promise is kept. */
import { expect, it } from 'vitest'
import { Log } from '../../sim/log.ts'
import { Random } from '../../sim/random.ts'
import { SimProcess } from '../../sim/sim-process.ts'
import { World } from '../../sim/world.ts'

const LATE_US_MAX = 2_000

function processAtRate(rate: number) {
  const world = new World()
  const clock = { rate, hasBootClock: true, wallMs: 0, uptimeMs: 1_000 }
  const surroundings = { world, log: new Log(world), random: new Random('timers') }
  return { world, process: new SimProcess(surroundings, { name: 'ada', holder: 'ada', clock }) }
}

it.each([
  ['faster', 1.0099],
  ['slower', 0.9901],
])(
  'a timer that is armed when the clock begins to run %s runs out by that clock',
  async (_, rate) => {
    const { world, process } = processAtRate(1)
    const { runtime } = process.start()
    const fired: number[] = []
    runtime.setTimer(1_000, () => fired.push(world.nowUs), { keepAlive: true })
    world.schedule(500_000, () => process.drift(rate))
    await world.run(2_000_000)
    const dueUs = 500_000 + 500_000 / rate
    expect(fired).toHaveLength(1)
    expect(fired[0]).toBeGreaterThanOrEqual(dueUs)
    expect(fired[0]).toBeLessThanOrEqual(dueUs + LATE_US_MAX)
  },
)

it('a timer that was cancelled does not run when the clock begins to run at another rate', async () => {
  const { world, process } = processAtRate(1)
  const incarnation = process.start()
  const fired: number[] = []
  const timer = incarnation.runtime.setTimer(1_000, () => fired.push(world.nowUs), {
    keepAlive: true,
  })
  timer.cancel()
  world.schedule(500_000, () => process.drift(1.0099))
  await world.run(2_000_000)
  expect([fired, incarnation.timerCount]).toEqual([[], 0])
})

it('a clock that begins to run at another rate while its process is stopped is heard of afterwards', async () => {
  const { world, process } = processAtRate(1)
  process.start()
  const heard: number[] = []
  process.onRateChange(() => heard.push(world.nowUs))
  process.stop('pause')
  world.schedule(1_000, () => process.drift(1.0099))
  world.schedule(2_000, () => process.resume())
  await world.run(10_000)
  expect(heard).toEqual([2_000])
})
