/** Makes the operating system fail to read some files, until the test ends. */
import { onTestFinished, vi } from 'vitest'
import { fs } from '../../src/runtime/file-system.ts'

/** As Node throws it. */
function systemError(code: string, path: string): Error {
  const error = new Error(`${code}: a fault of the test, open '${path}'`)
  return Object.assign(error, { code, syscall: 'open', errno: -1, path })
}

/** Every way of looking at a path with one of these ends fails with `code`. */
export function failToRead(ends: string | readonly string[], code: string): { heal(): void } {
  const fails = (path: unknown): boolean => [ends].flat().some((end) => String(path).endsWith(end))
  const { readFileSync, statSync, lstatSync, readlinkSync } = fs
  const { native } = fs.realpathSync
  const failing = <Read extends (...input: never[]) => unknown>(read: Read): Read => {
    return ((...input: Parameters<Read>) => {
      if (fails(input[0])) throw systemError(code, String(input[0]))
      return read(...input)
    }) as Read
  }
  const spies = [
    vi.spyOn(fs, 'readFileSync').mockImplementation(failing(readFileSync)),
    vi.spyOn(fs, 'statSync').mockImplementation(failing(statSync) as never),
    vi.spyOn(fs, 'lstatSync').mockImplementation(failing(lstatSync) as never),
    vi.spyOn(fs, 'readlinkSync').mockImplementation(failing(readlinkSync) as never),
    vi.spyOn(fs.realpathSync, 'native').mockImplementation(failing(native) as never),
  ]
  const heal = (): void => {
    for (const spy of spies) spy.mockRestore()
  }
  onTestFinished(heal)
  return { heal }
}
