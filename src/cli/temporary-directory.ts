/** A directory for what is made or tried, which nothing stays of: a SIGKILL apart, it goes however this process ends. */
import { fs } from '../runtime/file-system.ts'

export async function withTemporaryDirectory<Result>(
  make: () => string,
  work: (directory: string) => Promise<Result>,
): Promise<Result> {
  const directory = make()
  // A program that was tried may be writing there until it has ended.
  const remove = (): void => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
  process.once('exit', remove)
  try {
    return await work(directory)
  } finally {
    process.off('exit', remove)
    remove()
  }
}
