import os from 'node:os'
import { describe, expect, it } from 'vitest'
import { runProgram } from '../../src/runtime/programs.ts'

const cwd = os.tmpdir()
const LIMIT_MS = 300
/** Long after the limit, and long before what is run would end by itself: a program without a limit fails by it. */
const SOON_MS = 20_000

describe('a program with a limit', () => {
  it.each([
    ['what it started has its output open', 'echo begun; sleep 60; true'],
    ['it does not listen', "trap '' TERM; echo begun; sleep 60; true"],
  ])(
    'is over at its limit although %s',
    async (_, script) => {
      const { exitCode, stdout } = await runProgram(['sh', '-c', script], {
        cwd,
        limitMs: LIMIT_MS,
      })
      expect([exitCode, stdout.toString()]).toEqual([null, 'begun\n'])
    },
    SOON_MS,
  )

  it(
    'is over at its limit although what it started has left its group',
    async () => {
      const script = `const { spawn } = require('node:child_process')
      console.log(spawn('sleep', ['60'], { detached: true, stdio: 'inherit' }).pid)`
      const { stdout } = await runProgram([process.execPath, '-e', script], { cwd, limitMs: 5_000 })
      process.kill(Number(stdout.toString()))
    },
    SOON_MS,
  )

  it('is not ended before', async () => {
    const { exitCode, stdout } = await runProgram(['sh', '-c', 'echo done; exit 3'], {
      ...{ cwd, limitMs: SOON_MS },
    })
    expect([exitCode, stdout.toString()]).toEqual([3, 'done\n'])
  })

  it('that cannot be started is an error of the system', async () => {
    const running = runProgram(['no-such-program'], { cwd, limitMs: LIMIT_MS })
    await expect(running).rejects.toMatchObject({ code: 'ENOENT' })
  })
})
