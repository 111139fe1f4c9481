// Compiled, never run: the types say what the package does.
import { Stillframe, binary } from 'stillframe'
import { useStillframe } from 'stillframe/testing'

export async function uses (): Promise<string> {
  await using server = await Stillframe.start({ dir: 'data', port: 0, settings: { save: ['60 1'], appendonly: true } })
  // @ts-expect-error: it is a number
  await Stillframe.start({ port: '6379' })
  const { wasAsked } = await server.ended
  const path: string | null = server.path
  return binary() + path + String(wasAsked) + useStillframe().server.url
}
